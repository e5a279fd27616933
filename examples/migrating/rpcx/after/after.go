// Package after is the service and its caller with tandem. The service is the same; the server
// also serves rpcx's clients, and the caller can call rpcx's servers.
package after

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec/msgpack"
	"github.com/tandem-rpc/tandem/protocol/rpcx"
	"github.com/tandem-rpc/tandem/server"
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
	srv := server.New(server.WithCodecs(msgpack.Codec()), server.WithProtocols(rpcx.New()))
	if err := srv.RegisterName("Arith", Arith{}); err != nil {
		return err
	}
	return errors.Join(srv.ServeListener(ln), srv.Close())
}

// Divide calls the server at a target: tcp://host:port with tandem's own protocol,
// rpcx://host:port as long as it is an rpcx server.
func Divide(target string, a, b int) (int, error) {
	c, err := client.Dial(target, client.WithProtocols(rpcx.Client()), client.WithFailMode(client.Failtry))
	if err != nil {
		return 0, err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	reply, err := client.Invoke[Reply](ctx, c, "Arith.Div", &Args{a, b})
	if err != nil {
		return 0, err
	}
	return reply.C, nil
}
