package client_test

import (
	"context"
	"fmt"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/policy"
)

// Settings is what is in force for calls of a method, and where it comes from.
func ExampleClient_Settings() {
	c, stop := one(func(_ context.Context, n *int) (*int, error) { return n, nil },
		client.WithTimeout(3*time.Second),
		client.WithPolicy(&policy.Policy{Version: "7", Methods: map[string]policy.Method{
			"It.Does": {Timeout: policy.Duration(time.Second)},
		}}))
	defer stop()
	show := func(s tandem.Setting) { fmt.Println(s.Name, s.Value, "by", s.From) }
	for _, method := range []string{"It.Does", "It.Rests"} {
		for _, s := range c.Settings(method) {
			if s.Name == "WithTimeout" || s.Name == "WithRetries" {
				show(s)
			}
		}
	}
	// Output:
	// WithTimeout 1s by policy 7
	// WithRetries 2 by default
	// WithTimeout 3s by option
	// WithRetries 2 by default
}
