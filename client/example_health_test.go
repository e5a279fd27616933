package client_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/resilience"
)

// A method that fails three times in a row gets no calls for ten seconds.
func ExampleWithBreaker() {
	c, stop := one(func(context.Context, *int) (*int, error) {
		return nil, tandem.Errorf(tandem.Internal, "the disk is full")
	}, client.WithBreaker(resilience.BreakerConfig{Consecutive: 3, Pause: 10 * time.Second}))
	defer stop()
	for range 4 {
		n := 1
		err := c.Call(context.Background(), "It.Does", &n, &n)
		fmt.Println(tandem.CodeOf(err), tandem.MayHaveExecuted(err))
	}
	// Output:
	// internal true
	// internal true
	// internal true
	// unavailable false
}

// An instance is ejected for a minute after two failures in a row; other errors of methods do
// not count.
func ExampleWithEjection() {
	c, stop := one(func(context.Context, *int) (*int, error) {
		return nil, errors.New("no such order")
	}, client.WithEjection(&client.Ejection{
		Breaker:  resilience.BreakerConfig{Consecutive: 2, Pause: time.Minute},
		Outliers: resilience.OutlierConfig{MaxShare: 0.1},
	}))
	defer stop()
	n := 1
	fmt.Println(c.Call(context.Background(), "It.Does", &n, &n))
	// Output: unknown: no such order
}

// Idle connections are pinged after at most a second of silence, so that a server that was
// stopped gets no call. This server answers.
func ExampleWithConnections_healthCheck() {
	c, stop := one(func(_ context.Context, n *int) (*int, error) { return n, nil }, client.WithConnections(client.Connections{HealthCheck: time.Second}))
	defer stop()
	n := 1
	check(c.Call(context.Background(), "It.Does", &n, &n))
	show := func(in client.InstanceState) { fmt.Printf("%s suspect: %q\n", in.ID, in.Suspect) }
	show(c.Describe("It.Does").Attempts[0].Instances[0])
	// Output: mem://it suspect: ""
}

// A server that is silent for a second is suspect. One that is silent for five is given up
// here: calls without a deadline of their own fail. A server with a slow handler answers pings.
func ExampleWithConnections_silence() {
	c, stop := one(func(_ context.Context, n *int) (*int, error) { return n, nil }, client.WithConnections(client.Connections{Silence: 5 * time.Second}), client.WithTimeout(0))
	defer stop()
	n := 1
	fmt.Println(c.Call(context.Background(), "It.Does", &n, &n))
	// Output: <nil>
}
