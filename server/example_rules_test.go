package server_test

import (
	"context"
	"fmt"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/plugin/auth"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// Rules as data say who may call what, and how much. Here they are fixed; with a Source they are
// followed while the server runs.
func ExampleWithRules() {
	first, err := policy.ParseServer([]byte(`{
		"kind": "server", "version": "1",
		"default": {"allow": []},
		"methods": {"Greeter.*": {"allow": ["web"], "perCaller": {"rate": 0.01, "burst": 1}}}
	}`))
	if err != nil {
		panic(err)
	}
	network := transport.NewMemory()
	token := auth.Bearer(func(_ context.Context, token string) (any, error) { return token, nil })
	srv := server.New(
		server.WithTransport("mem", network), server.WithPlugins(auth.New(token)),
		server.WithRules(server.Rules{First: first, Source: nil}),
	)
	err = server.Handle(srv, "Greeter.Hello", func(_ context.Context, name *string) (*string, error) {
		return new("hello " + *name), nil
	})
	if err != nil {
		panic(err)
	}
	go srv.Serve("mem", "greeter")
	defer srv.Close()

	for _, caller := range []string{"web", "web", "stranger"} {
		c, err := client.Dial("mem://greeter", client.WithTransport("mem", network), client.WithPlugins(auth.Token("Bearer", caller)))
		if err != nil {
			panic(err)
		}
		var text string
		err = c.Call(context.Background(), "Greeter.Hello", new("ann"), &text)
		fmt.Println(caller, "gets", text, tandem.CodeOf(err))
		_ = c.Close()
	}
	applied, counts := srv.Rules()
	fmt.Println(applied.InForce, counts == server.RuleCounts{Denied: 1, Limited: 1})
	// Output:
	// web gets hello ann ok
	// web gets  resource exhausted
	// stranger gets  permission denied
	// 1 true
}
