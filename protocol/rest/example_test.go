package rest_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/protocol/rest"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
)

// The definition has rpc Move(Cart) returns (Cart), with the option google.api.http
// { post: "/v1/{name=carts/*}:move" body: "*" }. Usually generated code is linked, and the method
// takes its types.
func Example() {
	file, err := compile("shop.v1.proto", `
		message Cart { string name = 1; int32 aisle = 2; }
		service Carts { rpc Move(Cart) returns (Cart) { option (google.api.http) = { post: "/v1/{name=carts/*}:move" body: "*" }; } }`)
	check(err)
	cart := file.Messages().ByName("Cart")

	routes, err := rest.New("shop.v1.Carts")
	check(err)
	srv := server.New(server.WithProtocols(web.New(web.WithRouter(routes))))
	check(srv.RegisterFunc("shop.v1.Carts.Move", func(_ context.Context, call *tandem.Call) error {
		in := dynamicpb.NewMessage(cart)
		if err := call.Body.Decode(in); err != nil {
			return err
		}
		return call.Body.Encode(in)
	}))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()

	res, err := http.Post("http://"+ln.Addr().String()+"/v1/carts/7:move", "application/json", strings.NewReader(`{"aisle":3}`))
	check(err)
	b, err := io.ReadAll(res.Body)
	check(err)
	check(res.Body.Close())
	fmt.Println(res.StatusCode, strings.ReplaceAll(string(b), " ", ""))
	http.DefaultClient.CloseIdleConnections()
	check(srv.Shutdown(context.Background()))
	<-served
	// Output: 200 {"name":"carts/7","aisle":3}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
