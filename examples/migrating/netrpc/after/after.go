// Package after is the service and its caller with tandem. The service is the same; the server
// also serves net/rpc's clients, and the caller has a deadline.
package after

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/protocol/netrpc"
	"github.com/tandem-rpc/tandem/server"
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
	srv := server.New(server.WithProtocols(netrpc.New()))
	if err := srv.Register(Arith{}); err != nil {
		return err
	}
	return errors.Join(srv.ServeListener(ln), srv.Close())
}

// Divide calls the server at an address.
func Divide(address string, a, b int) (int, error) {
	c, err := client.Dial("tcp://" + address)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	quotient, err := client.Invoke[int](ctx, c, "Arith.Div", &Args{a, b})
	if err != nil {
		return 0, err
	}
	return *quotient, nil
}
