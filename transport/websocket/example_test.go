package websocket_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
	"github.com/tandem-rpc/tandem/transport/websocket"
)

// An existing web server carries calls on one of its paths.
func ExampleNewHandler() {
	h := websocket.NewHandler(websocket.WithOrigins("app.example.com"))
	mux := http.NewServeMux()
	mux.Handle("/rpc", h)
	web := httptest.NewServer(mux)
	defer web.Close()

	srv := server.New()
	defer srv.Close()
	if err := srv.RegisterFunc("Math.Double", func(n int) int { return 2 * n }); err != nil {
		fmt.Println(err)
		return
	}
	go func() { _ = srv.ServeListener(h) }()

	target := strings.Replace(web.URL, "http://", "ws://", 1) + "/rpc"
	c, err := client.Dial(target, client.WithTransport("ws", websocket.New(transport.TCP())))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	four, err := client.Invoke[int](context.Background(), c, "Math.Double", 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(*four)
	// Output: 4
}
