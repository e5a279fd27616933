package netrpc_test

import (
	"context"
	"fmt"
	"net"
	"net/rpc"

	"github.com/tandem-rpc/tandem/protocol/netrpc"
	"github.com/tandem-rpc/tandem/server"
)

// Programs that use net/rpc's client work unchanged, over TCP and over HTTP.
func Example() {
	srv := server.New(server.WithProtocols(netrpc.New(netrpc.WithPaths(netrpc.DefaultPath, "/calls"))))
	check(srv.Register(Arith{}))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()

	c, err := rpc.Dial("tcp", ln.Addr().String())
	check(err)
	var r Reply
	fmt.Println(c.Call("Arith.Mul", &Args{6, 7}, &r), r.C)
	fmt.Println(c.Call("Arith.Div", &Args{6, 0}, &r))
	fmt.Println(c.Call("Arith.Pow", &Args{6, 7}, &r))
	check(c.Close())

	c, err = rpc.DialHTTPPath("tcp", ln.Addr().String(), "/calls")
	check(err)
	fmt.Println(c.Call("Arith.Add", &Args{6, 7}, &r), r.C)
	check(c.Close())

	check(srv.Shutdown(context.Background()))
	<-served
	// Output:
	// <nil> 42
	// divide by zero
	// rpc: can't find method Arith.Pow
	// <nil> 13
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
