package etcd_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/etcd"
)

// A client finds its servers in etcd, and a call waits for one until its deadline. Here
// no etcd is running.
func Example() {
	c, err := client.Dial("etcd://127.0.0.1:1/shop/Cart", client.WithResolver("etcd", etcd.Resolver()))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_, err = client.Invoke[string](ctx, c, "Cart.Total", "anybody")
	fmt.Println("may have run:", tandem.MayHaveExecuted(err))
	// Output:
	// may have run: false
}

// New refuses a bad target before it connects.
func ExampleNew() {
	for _, target := range []string{
		"etcd://h1:2379,h2:2379/shop/Cart?ttl=15s",
		"etcd://h1:2379",
		"etcd://h1:2379/shop/Cart?ttl=1s",
	} {
		r, err := etcd.New(target, etcd.WithTLS(&tls.Config{MinVersion: tls.VersionTLS13}), etcd.WithAuth("cart", "secret"))
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println("ready to be used")
		r.Close()
	}
	// Output:
	// ready to be used
	// etcd registry: target "etcd://h1:2379": it names no directory; want etcd://host:port/base/Service
	// etcd registry: target "etcd://h1:2379/shop/Cart?ttl=1s": time to live of 1s: want whole seconds, from 2s to 1h0m0s
}

// Without a server, a watch delivers an error and keeps trying.
func ExampleRegistry_Watch() {
	r, err := etcd.New("etcd://127.0.0.1:1/shop/Cart")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err = r.Watch(ctx, registry.Target{}, func(s registry.Snapshot) {
		fmt.Println("instances:", len(s.Instances), "error:", s.Err != nil)
		cancel()
	})
	fmt.Println(err)
	// Output:
	// instances: 0 error: true
	// context canceled
}

// A resolver refuses a target that can never work; a client with that resolver does so
// in Dial.
func ExampleResolver() {
	resolver := etcd.Resolver(etcd.WithLogger(slog.Default()), etcd.WithTTL(30*time.Second), etcd.WithRPCX())
	target, err := registry.ParseTarget("etcd://h1:2379/rpcx_test/Arith?port=2379")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(resolver.(registry.Checker).Check(target))
	// Output:
	// etcd registry: target "etcd://h1:2379/rpcx_test/Arith?port=2379": unknown option "port"; there are ttl, layout
}

// Close removes the instances that the registry has listed. A closed registry registers
// no more.
func ExampleRegistry_Close() {
	r, err := etcd.New("etcd://127.0.0.1:1/shop/Cart")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Close())
	_, err = r.Register(context.Background(), tandem.Instance{ID: "a", Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: "h:1"}}})
	fmt.Println(err)
	fmt.Println(r.Check(registry.Target{}))
	// Output:
	// <nil>
	// etcd registry: registering "a": the registry is closed
	// <nil>
}
