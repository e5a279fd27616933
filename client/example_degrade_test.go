package client_test

import (
	"context"
	"fmt"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// A rule answers calls of a method while its server is down: with the last good answer to the same
// request, or else with a fixed one.
func ExampleState_degraded() {
	rules, err := policy.Parse([]byte(`{"methods": {"Shop.Price": {
		"timeout": "1s",
		"degrade": {"last": {"maxAge": "10m"}, "reply": "{\"Cents\": -1}"}
	}}}`))
	if err != nil {
		panic(err)
	}
	type price struct{ Cents int }
	network := transport.NewMemory()
	srv := server.New(server.WithTransport("mem", network))
	err = server.Handle(srv, "Shop.Price", func(context.Context, *string) (*price, error) { return &price{250}, nil })
	if err != nil {
		panic(err)
	}
	go srv.Serve("mem", "shop")
	c, err := client.Dial("mem://shop", client.WithTransport("mem", network), client.WithPolicy(rules))
	if err != nil {
		panic(err)
	}
	defer c.Close()

	ask := func(item string) {
		var p price
		var trailer tandem.Metadata
		err := c.Call(context.Background(), "Shop.Price", item, &p, client.Trailer(&trailer))
		fmt.Printf("%s %d %q %v\n", item, p.Cents, trailer.Get(tandem.DegradedKey), err)
	}
	ask("tea")
	_ = srv.Close()
	ask("tea")
	ask("coffee")
	fmt.Println(c.State().Degraded == client.DegradeCounts{Default: 1, Last: 1})
	// Output:
	// tea 250 "" <nil>
	// tea 250 "last" <nil>
	// coffee -1 "default" <nil>
	// true
}
