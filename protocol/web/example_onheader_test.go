package web_test

import (
	"context"
	"fmt"
	"net"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
)

// A response's header and trailer are one in the call's Trailer; OnHeader tells them apart.
func ExampleOnHeader() {
	srv := server.New(server.WithProtocols(web.New()))
	check(server.Handle(srv, "test.v1.Texts.Upper", func(ctx context.Context, m *text) (*text, error) {
		web.Header(ctx).Set("Begun", "early")
		tandem.FromContext(ctx).Trailer = tandem.Metadata{"ended": {"late"}}
		return m, nil
	}))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()

	c, err := client.Dial("grpc://"+ln.Addr().String(), client.WithProtocols(web.GRPC()))
	check(err)
	var all tandem.Metadata
	ctx := web.OnHeader(context.Background(), func(header tandem.Metadata) {
		fmt.Println("header:", header["begun"], header["ended"])
	})
	check(c.Call(ctx, "test.v1.Texts.Upper", &text{Value: "x"}, nil, client.Trailer(&all)))
	fmt.Println("both:", all["begun"], all["ended"])
	check(c.Close())
	check(srv.Shutdown(context.Background()))
	<-served
	// Output:
	// header: [early] []
	// both: [early] [late]
}
