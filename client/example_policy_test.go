package client_test

import (
	"context"
	"fmt"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry"
)

// A policy sets how the calls of each method are made. It overrides the client's options, and a
// call's own options override it.
func ExampleWithPolicy() {
	attempts := 0
	c, stop := one(func(context.Context, *string) (*int, error) {
		attempts++ // one call at a time here
		return nil, tandem.Errorf(tandem.Unavailable, "not now")
	}, client.WithPolicy(&policy.Policy{
		Version: "1",
		Default: policy.Method{Timeout: policy.Duration(2 * time.Second)},
		Methods: map[string]policy.Method{
			"It.*": {FailMode: "failtry", Retries: new(3), Idempotent: new(true)},
		},
	}))
	defer stop()
	_ = c.Call(context.Background(), "It.Does", "", nil)
	fmt.Println(attempts, "attempts by the policy")
	attempts = 0
	_ = c.Call(context.Background(), "It.Does", "", nil, client.FailMode(client.Failfast))
	fmt.Println(attempts, "by the call's own option")
	// Output:
	// 4 attempts by the policy
	// 1 by the call's own option
}

// A client follows the policy in a registry, and reports there whether it was applied.
func ExampleWithPolicyFrom() {
	list := registry.NewMemory() // or etcd.New(…), zookeeper.New(…), file.New(…)
	source := policy.FromRegistry(list, "/shop/policies/cart")
	list.PutDocument("/shop/policies/cart", []byte(`{"version": "1", "default": {"timeout": "2s"}}`))
	c, stop := one(func(ctx context.Context, _ *string) (*string, error) {
		deadline, _ := ctx.Deadline()
		left := time.Until(deadline).Round(time.Second).String()
		return &left, nil
	}, client.WithPolicyFrom(source, "till 7"))
	defer stop()

	awaitReport(source, "1")
	left, err := client.Invoke[string](context.Background(), c, "It.Does", "")
	fmt.Println(*left, err)

	list.PutDocument("/shop/policies/cart", []byte(`{"version": "2", "methods": {"It.Does": {"timeout": "1m"}}}`))
	fmt.Println(awaitReport(source, "2").Client)
	left, err = client.Invoke[string](context.Background(), c, "It.Does", "")
	fmt.Println(*left, err)
	// Output:
	// 2s <nil>
	// till 7
	// 1m0s <nil>
}

// awaitReport returns the report of the only client once it follows a version.
func awaitReport(source policy.Source, version string) policy.Applied {
	for {
		list, err := source.(policy.Reports).Applied(context.Background())
		check(err)
		if len(list) == 1 && list[0].InForce == version {
			return list[0]
		}
		time.Sleep(time.Millisecond) // polls a condition
	}
}

// An invalid document is refused as a whole: the one before stays in force.
func ExampleClient_Policy() {
	list := registry.NewMemory()
	c, err := client.Dial("tcp://127.0.0.1:1", client.WithPolicyFrom(policy.FromRegistry(list, "/policies/shop"), ""))
	check(err)
	defer c.Close()
	for _, text := range []string{
		`{"version": "1", "default": {"failMode": "failover"}}`,
		`{"default": {"retries": 99}}`,
	} {
		before := c.Policy().At
		list.PutDocument("/policies/shop", []byte(text))
		for !c.Policy().At.After(before) || c.Policy().Version == "" {
			time.Sleep(time.Millisecond) // polls a condition
		}
		a := c.Policy()
		fmt.Printf("in force: %s; refused: %q\n", a.InForce, a.Error)
	}
	// Output:
	// in force: 1; refused: ""
	// in force: 1; refused: "policy: default.retries: want 0 to 10"
}
