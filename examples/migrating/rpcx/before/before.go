// Package before is a service and its caller with rpcx 1.9.
package before

import (
	"context"
	"errors"
	"net"

	"github.com/smallnest/rpcx/client"
	"github.com/smallnest/rpcx/server"
)

// Args are two numbers.
type Args struct{ A, B int }

// Reply is their quotient.
type Reply struct{ C int }

// Arith divides.
type Arith struct{}

// Div divides.
func (Arith) Div(_ context.Context, args *Args, reply *Reply) error {
	if args.B == 0 {
		return errors.New("divide by zero")
	}
	reply.C = args.A / args.B
	return nil
}

// Serve serves until the listener is closed.
func Serve(ln net.Listener) error {
	srv := server.NewServer()
	if err := srv.RegisterName("Arith", Arith{}, ""); err != nil {
		return err
	}
	return srv.ServeListener("tcp", ln)
}

// Divide calls the server at an address.
func Divide(address string, a, b int) (int, error) {
	discovery, err := client.NewPeer2PeerDiscovery("tcp@"+address, "")
	if err != nil {
		return 0, err
	}
	c := client.NewXClient("Arith", client.Failtry, client.RandomSelect, discovery, client.DefaultOption)
	defer c.Close()
	var reply Reply
	err = c.Call(context.Background(), "Div", &Args{a, b}, &reply)
	return reply.C, err
}
