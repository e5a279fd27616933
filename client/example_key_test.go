package client_test

import (
	"context"
	"fmt"

	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/once"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// A call with a key runs at most once, so it may be made again, for example by a job that was
// interrupted. NewKey makes a key; the job keeps it.
func ExampleKey() {
	network := transport.NewMemory()
	srv := server.New(server.WithTransport("mem", network),
		server.WithPlugins(once.New(once.NewMemory(once.MemoryConfig{}), once.WithCaller(once.Anyone))))
	orders := 0
	check(server.Handle(srv, "Shop.Place", func(_ context.Context, _ *string) (*int, error) {
		orders++
		n := orders
		return &n, nil
	}))
	ln, err := network.Listen(context.Background(), "shop")
	check(err)
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	c, err := client.Dial("mem://shop", client.WithTransport("mem", network), client.WithFailMode(client.Failover))
	check(err)

	ctx, key := context.Background(), client.NewKey()
	for range 3 {
		number, err := client.Invoke[int](ctx, c, "Shop.Place", "tea", client.Key(key))
		check(err)
		fmt.Println("order", *number)
	}
	_, err = client.Invoke[int](ctx, c, "Shop.Place", "milk", client.Key(key))
	fmt.Println(once.ReasonOf(err) == once.Mismatch)

	for _, what := range []string{"tea", "black tea"} { // which the job takes for the same
		number, err := client.Invoke[int](ctx, c, "Shop.Place", what, client.Key("order-17"), client.Fingerprint("tea"))
		check(err)
		fmt.Println("order", *number)
	}
	check(c.Close())
	check(srv.Close())
	<-served
	// Output:
	// order 1
	// order 1
	// order 1
	// true
	// order 2
	// order 2
}
