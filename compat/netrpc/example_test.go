package rpc_test

import (
	"context"
	"fmt"
	"net"

	"github.com/tandem-rpc/tandem/client"
	rpc "github.com/tandem-rpc/tandem/compat/netrpc"
)

// A program that uses net/rpc, with only its import line changed.
func Example() {
	srv := rpc.NewServer()
	if err := srv.Register(new(Arith)); err != nil {
		fmt.Println(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		srv.Accept(ln)
	}()

	c, err := rpc.Dial("tcp", ln.Addr().String())
	if err != nil {
		fmt.Println(err)
	}
	var reply Reply
	err = c.Call("Arith.Mul", &Args{7, 8}, &reply)
	fmt.Println(reply.C, err)
	call := <-c.Go("Arith.Div", &Args{7, 0}, &reply, nil).Done
	fmt.Println(call.Error)

	_ = c.Close()
	_ = ln.Close()
	<-over
	_ = srv.Core().Close()
	// Output:
	// 56 <nil>
	// divide by zero
}

// The same services on one more port, for the clients of every protocol.
func ExampleServer_Core() {
	srv := rpc.NewServer()
	if err := srv.Register(new(Arith)); err != nil {
		fmt.Println(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Core().ServeListener(ln) }()

	old, err := rpc.Dial("tcp", ln.Addr().String())
	if err != nil {
		fmt.Println(err)
	}
	var reply Reply
	fmt.Println(old.Call("Arith.Add", &Args{7, 8}, &reply), reply.C)
	_ = old.Close()

	c, err := client.Dial("tcp://" + ln.Addr().String())
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(c.Call(context.Background(), "Arith.Mul", &Args{7, 8}, &reply), reply.C)
	_ = c.Close()

	_ = srv.Core().Shutdown(context.Background())
	<-served
	// Output:
	// <nil> 15
	// <nil> 56
}
