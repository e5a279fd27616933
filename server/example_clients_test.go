package server_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// A device behind NAT connects and announces its ID; from then on its server calls it.
func ExampleServer_Client() {
	network := transport.NewMemory()
	srv := server.New(server.WithClients(func(_ context.Context, id string) error {
		if len(id) > server.MaxClientID || id == "root" {
			return errors.New("nobody is called that")
		}
		return nil
	}))
	defer srv.Close()
	ln, err := network.Listen(context.Background(), "home")
	check(err)
	go func() { _ = srv.ServeListener(ln) }()

	lamp, err := client.Dial("mem://home", client.WithTransport("mem", network), client.WithID("lamp"),
		client.WithFunc("Lamp.Switch", func(_ context.Context, on *bool) (*string, error) {
			state := "dark"
			if *on {
				state = "bright"
			}
			return &state, nil
		}))
	check(err)

	ctx := context.Background()
	check(srv.AwaitClient(ctx, "lamp"))
	state, err := client.Invoke[string](ctx, srv.Client("lamp"), "Lamp.Switch", true)
	check(err)
	fmt.Println("it is", *state)
	for _, c := range srv.Clients() {
		fmt.Println(c.ID, "has", c.Connections, "connection")
	}

	check(lamp.Close())
	_, err = client.Invoke[string](ctx, srv.Client("fan"), "Fan.Switch", true)
	fmt.Println(errors.Is(err, server.ErrNoClient), tandem.AsError(err).NotExecuted)
	// Output:
	// it is bright
	// lamp has 1 connection
	// true true
}

// The announcement of a client is a method like any other, so an interceptor can ask for
// credentials.
func ExampleWithClients() {
	srv := server.New(server.WithClients(nil), server.WithInterceptors(func(next tandem.Func) tandem.Func {
		return func(ctx context.Context, call *tandem.Call) error {
			if call.Method == tandem.AnnounceMethod && call.Metadata.Get("token") != "secret" {
				return tandem.Errorf(tandem.Unauthenticated, "no token")
			}
			return next(ctx, call)
		}
	}))
	defer srv.Close()
	network := transport.NewMemory()
	ln, err := network.Listen(context.Background(), "a")
	check(err)
	go func() { _ = srv.ServeListener(ln) }()

	c, err := client.Dial("mem://a", client.WithTransport("mem", network))
	check(err)
	defer c.Close()
	err = c.Call(context.Background(), tandem.AnnounceMethod, []byte("me"), nil, client.Codec("raw"))
	fmt.Println(err)
	connected := map[string]server.ConnectedClient{}
	for _, c := range srv.Clients() {
		connected[c.ID] = c
	}
	fmt.Println(len(connected), "connected")
	// Output:
	// unauthenticated: no token
	// 0 connected
}
