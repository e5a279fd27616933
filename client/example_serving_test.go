package client_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/plugin/auth"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// A device authenticates the server that calls it, with the plugin that servers use.
func ExampleServing() {
	network := transport.NewMemory()
	srv := server.New(server.WithClients(nil))
	defer srv.Close()
	ln, _ := network.Listen(context.Background(), "home")
	go func() { _ = srv.ServeListener(ln) }()

	owner := auth.New(auth.Bearer(func(_ context.Context, token string) (any, error) {
		if token != "owner" {
			return nil, errors.New("a stranger")
		}
		return token, nil
	}))
	lock, err := client.Dial("mem://home", client.WithTransport("mem", network), client.WithID("lock"),
		client.WithPlugins(client.Serving{owner}),
		client.WithFunc("Lock.Open", func(ctx context.Context, door *string) (*string, error) {
			who, _ := auth.Identity[string](ctx)
			return new(*door + " is open, " + who), nil
		}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lock.Close()
	_ = srv.AwaitClient(context.Background(), "lock")
	for _, token := range []string{"guest", "owner"} {
		said, err := client.Invoke[string](context.Background(), srv.Client("lock"), "Lock.Open", "the garage",
			client.Metadata("authorization", "Bearer "+token))
		if err != nil {
			fmt.Println(tandem.CodeOf(err))
			continue
		}
		fmt.Println(*said)
	}
	// Output:
	// unauthenticated
	// the garage is open, owner
}
