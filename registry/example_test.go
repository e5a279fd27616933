package registry_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
)

func ExampleParseTarget() {
	t, err := registry.ParseTarget("etcd://h1:2379,h2:2379/services/arith?ttl=10s")
	fmt.Println(t.Scheme, t.Authority, t.Path, t.Query.Get("ttl"), err)
	// Output: etcd h1:2379,h2:2379 /services/arith 10s <nil>
}

// show watches a target for one list and prints it.
func show(r registry.Resolver, target string) {
	t, err := registry.ParseTarget(target)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	err = r.Watch(ctx, t, func(s registry.Snapshot) {
		for _, in := range s.Instances {
			fmt.Println(in.ID, in.Weight)
		}
		cancel()
	})
	if !errors.Is(err, context.Canceled) {
		fmt.Println(err)
	}
}

func ExampleSingle() {
	show(registry.Single("unix"), "unix:///run/arith.sock")
	// Output: unix:///run/arith.sock 0
}

func ExampleStatic() {
	show(registry.Static(), "static://a:8972,b:8972?weight=3,1")
	show(registry.Static(), "static://a:8972,b:8972?weight=3")
	// Output:
	// tcp://a:8972 3
	// tcp://b:8972 1
	// target "static://a:8972,b:8972?weight=3": 1 weights for 2 addresses; give one for each
}

func ExampleMemory() {
	m := registry.NewMemory()
	entry, err := m.Register(context.Background(), tandem.Instance{
		ID:        "one",
		Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: "127.0.0.1:8972"}},
		Weight:    50,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer entry.Close()
	show(m, "memory://")
	show(m, "memory://any")
	// Output:
	// target "memory://": want scheme://address
	// one 50
}
