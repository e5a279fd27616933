// Package before is a service and its caller with Go's net/rpc.
package before

import (
	"errors"
	"net"
	"net/rpc"
)

// Args are two numbers.
type Args struct{ A, B int }

// Arith divides.
type Arith struct{}

// Div divides.
func (Arith) Div(args *Args, reply *int) error {
	if args.B == 0 {
		return errors.New("divide by zero")
	}
	*reply = args.A / args.B
	return nil
}

// Serve serves until the listener is closed.
func Serve(ln net.Listener) error {
	srv := rpc.NewServer()
	if err := srv.Register(Arith{}); err != nil {
		return err
	}
	srv.Accept(ln)
	return nil
}

// Divide calls the server at an address.
func Divide(address string, a, b int) (int, error) {
	c, err := rpc.Dial("tcp", address)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	var quotient int
	err = c.Call("Arith.Div", &Args{a, b}, &quotient)
	return quotient, err
}
