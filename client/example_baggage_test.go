package client_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/server"
)

// A lane goes from service to service by the context of the handlers.
func ExampleWithBaggage() {
	prices, carts := registry.NewMemory(), registry.NewMemory()
	local := server.WithBaggage(server.Baggage{Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	var servers []*server.Server
	serve := func(list *registry.Memory, lane string, method string, f func(context.Context, *string) (*string, error)) {
		srv := server.New(local)
		if err := server.Handle(srv, method, f); err != nil {
			panic(err)
		}
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			panic(err)
		}
		go srv.ServeListener(ln)
		in := tandem.Instance{ID: method + lane, Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: ln.Addr().String()}}}
		if lane != "" {
			in.Tags = map[string]string{"lane": lane}
		}
		if _, err := list.Register(context.Background(), in); err != nil {
			panic(err)
		}
		servers = append(servers, srv)
	}
	for _, lane := range []string{"", "blue"} {
		serve(prices, lane, "Prices.Of", func(context.Context, *string) (*string, error) { return new("price of lane " + lane), nil })
	}
	toPrices, err := client.Dial("list://prices", client.WithResolver("list", prices))
	if err != nil {
		panic(err)
	}
	defer toPrices.Close()
	serve(carts, "", "Carts.Total", func(ctx context.Context, item *string) (*string, error) {
		price := new(string)
		return price, toPrices.Call(ctx, "Prices.Of", item, price) // says nothing about lanes
	})

	// A registry's target is trusted by default; a fixed host would need client.Trusted.
	var trust client.Trust // the zero value is TrustByTarget
	toCarts, err := client.Dial("list://carts", client.WithResolver("list", carts), client.WithBaggage(client.Baggage{Keys: []string{"lane"}, Target: trust}))
	if err != nil {
		panic(err)
	}
	defer toCarts.Close()
	ctx, err := tandem.WithBaggage(context.Background(), "lane", "blue")
	if err != nil {
		panic(err)
	}
	var total string
	err = toCarts.Call(ctx, "Carts.Total", new("tea"), &total)
	fmt.Println(total, err)

	fmt.Println(trust == client.TrustByTarget, servers[2].BaggageCounts() == server.BaggageCounts{Taken: 1})
	for _, srv := range servers {
		_ = srv.Close()
	}
	// Output:
	// price of lane blue <nil>
	// true true
}
