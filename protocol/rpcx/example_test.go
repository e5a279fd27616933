package rpcx_test

import (
	"context"
	"fmt"
	"net"

	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/protocol/rpcx"
	"github.com/tandem-rpc/tandem/server"
)

type Args struct{ A, B int }

type Arith struct{}

func (Arith) Mul(_ context.Context, in *Args, product *int) error {
	*product = in.A * in.B
	return nil
}

// A server for rpcx's clients, and a client for rpcx's servers.
func Example() {
	srv := server.New(server.WithProtocols(rpcx.New()))
	check(srv.RegisterName("Arith", Arith{}))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()

	c, err := client.Dial("rpcx://"+ln.Addr().String(), client.WithProtocols(rpcx.Client()))
	check(err)
	product, err := client.Invoke[int](context.Background(), c, "Arith.Mul", &Args{6, 7})
	fmt.Println(*product, err)
	err = c.Call(context.Background(), "Arith.Pow", &Args{6, 7}, nil)
	fmt.Println(err)
	check(c.Close())
	check(srv.Shutdown(context.Background()))
	<-served
	// Output:
	// 42 <nil>
	// unimplemented: rpcx: can't find method Pow
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
