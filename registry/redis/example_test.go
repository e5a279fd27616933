package redis_test

import (
	"context"
	"fmt"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/redis"
)

// A server lists itself; a client would follow the list by
//
//	client.Dial("redis://127.0.0.1:6379/prod/Arith", client.WithResolver("redis", redis.Resolver()))
//
// There is no Redis at the address of this example, so both get an error. Neither gives
// up.
func Example() {
	r, err := redis.New("redis://127.0.0.1:1/prod/Arith",
		redis.WithAuth("arith", "secret"), // and redis.WithTLS(config)
		redis.WithTTL(10*time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	entry, err := r.Register(ctx, tandem.Instance{
		ID:        "tcp://10.0.0.7:8972",
		Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: "10.0.0.7:8972"}},
	})
	if err == nil {
		defer entry.Close()
	}
	fmt.Println("registered:", err == nil)

	err = r.Watch(ctx, registry.Target{}, func(s registry.Snapshot) {
		fmt.Println("listed:", s.Err == nil)
		cancel()
	})
	fmt.Println(err)
	// Output:
	// registered: false
	// listed: false
	// context canceled
}

// A target is checked when it is first used; the error says what is wrong with it.
func ExampleResolver() {
	resolver := redis.Resolver(redis.WithTTL(10 * time.Second))
	target, err := registry.ParseTarget("redis://127.0.0.1:6379/prod/Arith?database=3")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(resolver.(registry.Checker).Check(target))
	// Output:
	// redis registry: target "redis://127.0.0.1:6379/prod/Arith?database=3": unknown option "database"; there are ttl, db, master, cluster
}
