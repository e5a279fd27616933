package dns_test

import (
	"context"
	"fmt"

	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/adapter"
	"github.com/tandem-rpc/tandem/registry/dns"
)

func ExampleResolver() {
	for _, text := range []string{"dns://127.0.0.1:8972?interval=1m", "dns://arith.example?interval=1m"} {
		target, err := registry.ParseTarget(text)
		if err != nil {
			fmt.Println(err)
			return
		}
		ctx, cancel := context.WithCancel(context.Background())
		err = dns.Resolver().Watch(ctx, target, func(s registry.Snapshot) {
			fmt.Println(s.Instances[0].ID)
			cancel() // ends Watch
		})
		fmt.Println(err)
		cancel()
	}
	// Output:
	// tcp://127.0.0.1:8972
	// context canceled
	// target "dns://arith.example?interval=1m": address arith.example: missing port in address; want host:port
}

// A client that can reach no instance of the list has the name looked up again at once.
func ExampleResolver_poll() {
	target, err := registry.ParseTarget("dns://127.0.0.1:8972?interval=1h")
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	unreachable := make(chan struct{}, 1)
	unreachable <- struct{}{}
	err = dns.Resolver().(adapter.Poller).Poll(ctx, target, unreachable, func(s registry.Snapshot) {
		fmt.Println(s.Instances[0].ID)
		cancel() // ends Poll
	})
	fmt.Println(err)
	// Output:
	// tcp://127.0.0.1:8972
	// context canceled
}
