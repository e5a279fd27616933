package client_test

import (
	"context"
	"fmt"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// versions starts a server of version 1, one of version 2 and one in the blue lane, with a
// method that returns the server's name.
func versions() (network *transport.Memory, list *registry.Memory, stop func()) {
	network, list = transport.NewMemory(), registry.NewMemory()
	var servers []*server.Server
	done := make(chan error, 3)
	for name, in := range map[string]tandem.Instance{
		"one": {Version: "1"}, "two": {Version: "2"}, "blue": {Version: "2", Tags: map[string]string{balance.ReservedTag: "blue"}},
	} {
		srv := server.New(server.WithTransport("mem", network))
		check(server.Handle(srv, "Server.Name", func(context.Context, *string) (*string, error) { return &name, nil }))
		ln, err := network.Listen(context.Background(), name)
		check(err)
		go func() { done <- srv.ServeListener(ln) }()
		in.ID, in.Endpoints = name, []tandem.Endpoint{{Transport: "mem", Address: name}}
		_, err = list.Register(context.Background(), in)
		check(err)
		servers = append(servers, srv)
	}
	return network, list, func() {
		for _, srv := range servers {
			check(srv.Close())
			<-done
		}
	}
}

// A client has a route for its calls, and a call may have another. A route's tags are
// preferences unless it is forced: the red lane has no server here.
func ExampleRoute() {
	network, list, stop := versions()
	defer stop()
	c, err := client.Dial("memory://x", client.WithTransport("mem", network), client.WithResolver("memory", list),
		client.WithRoute(tandem.Route{Version: "1"}))
	check(err)
	defer c.Close()
	lane := func(name string) tandem.CallOption {
		return client.Route(tandem.Route{Version: "2", Tags: map[string]string{"lane": name}})
	}
	for _, opts := range [][]tandem.CallOption{nil, {lane("blue")}, {lane("red")}} {
		for _, id := range []string{"one", "two", "blue"} {
			check(c.Call(context.Background(), "Server.Name", "", nil, client.Instance(id))) // all are connected
		}
		name, err := client.Invoke[string](context.Background(), c, "Server.Name", "", opts...)
		check(err)
		fmt.Println(*name)
	}
	// Output:
	// one
	// blue
	// two
}

// The user's name in the arguments is the key: all calls for a user go to the same instance.
func ExampleWithHashKey() {
	network, stop := ready()
	defer stop()
	c, err := client.Dial("static://a,b?transport=mem", client.WithTransport("mem", network), client.WithBalancer(Rendezvous{}),
		client.WithHashKey(func(_ string, args any) string { user, _ := args.(string); return user }))
	check(err)
	defer c.Close()
	for _, id := range []string{"mem://a", "mem://b"} {
		check(c.Call(context.Background(), "Server.Name", "", nil, client.Instance(id))) // both are connected
	}
	for _, user := range []string{"ann", "ann", "bob", "bob"} {
		name, err := client.Invoke[string](context.Background(), c, "Server.Name", user)
		check(err)
		fmt.Println(user, *name)
	}
	// Output:
	// ann b
	// ann b
	// bob a
	// bob a
}
