package client_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
)

// An operator keeps calls away from an instance for an hour, and then lets them go there again.
func ExampleClient_ForceBreaker() {
	c, stop := one(func(_ context.Context, n *int) (*int, error) { return n, nil })
	defer stop()
	n := 1
	check(c.Call(context.Background(), "It.Does", &n, nil))

	const instance = "mem://it"
	check(c.ForceBreaker(instance, true, time.Now().Add(time.Hour)))
	err := c.Call(context.Background(), "It.Does", &n, nil)
	fmt.Println(tandem.CodeOf(err), tandem.MayHaveExecuted(err))
	show := func(in client.InstanceState) {
		fmt.Println(in.Breaker, strings.Contains(in.Unusable, "forced open until"))
	}
	show(c.Describe("").Attempts[0].Instances[0])

	check(c.ForceBreaker(instance, true, time.Time{}))
	fmt.Println(c.Call(context.Background(), "It.Does", &n, nil))
	fmt.Println(tandem.CodeOf(c.ForceBreaker("another", true, time.Now().Add(time.Hour))))
	// Output:
	// unavailable false
	// open true
	// <nil>
	// not found
}
