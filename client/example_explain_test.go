package client_test

import (
	"context"
	"fmt"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
)

// Explain shows where the attempts of a call went, and what was known of the instances.
func ExampleExplain() {
	c, stop := one(func(context.Context, *int) (*int, error) {
		return nil, tandem.Errorf(tandem.Unavailable, "the disk is full")
	}, client.WithFailMode(client.Failtry), client.WithRetries(1))
	defer stop()
	n := 1
	var e client.Explanation
	_ = c.Call(context.Background(), "It.Does", &n, &n, client.Idempotent(), client.Explain(&e))
	show := func(a client.Attempt) { fmt.Println(a.Number, a.Chosen, a.Error) }
	for _, a := range e.Attempts {
		show(a)
	}
	// Output:
	// 0 mem://it unavailable: the disk is full
	// 1 mem://it unavailable: the disk is full
}

// ExplainTo explains every call of a client, for debugging.
func ExampleExplainTo() {
	c, stop := one(func(_ context.Context, n *int) (*int, error) { return n, nil },
		client.WithInterceptors(client.ExplainTo(func(e *client.Explanation) { fmt.Println(e.Method, len(e.Attempts), e.Attempts[0].Chosen) })))
	defer stop()
	n := 1
	check(c.Call(context.Background(), "It.Does", &n, &n))
	show := func(in client.InstanceState) { fmt.Println(in.ID, in.Weight, in.Breaker) }
	show(c.Describe("It.Does").Attempts[0].Instances[0])
	// Output:
	// It.Does 1 mem://it
	// mem://it 100 closed
}
