package client_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// shops starts servers with these names on a network in memory, each with a method Shop.Do, and
// returns a client of all.
func shops(do func(ctx context.Context, at string) (string, error), names string, opts ...client.Option) (c *client.Client, stop func()) {
	network := transport.NewMemory()
	var servers []*server.Server
	target, served := "static://", make(chan error, len(names))
	for _, r := range names {
		name, srv := string(r), server.New()
		check(server.Handle(srv, "Shop.Do", func(ctx context.Context, _ *string) (*string, error) {
			said, err := do(ctx, name)
			return &said, err
		}))
		ln, err := network.Listen(context.Background(), name)
		check(err)
		go func() { served <- srv.ServeListener(ln) }()
		servers, target = append(servers, srv), target+name+","
	}
	c, err := client.Dial(target[:len(target)-1]+"?transport=mem", append(opts, client.WithTransport("mem", network))...)
	check(err)
	for _, r := range names { // until all are connected
		check(c.Call(context.Background(), "Shop.Do", "", nil, client.Instance("mem://"+string(r)), client.Metadata("greeting", "hello"), client.FailMode(client.Failsafe)))
	}
	return c, func() {
		check(c.Close())
		for _, srv := range servers {
			check(srv.Close())
			<-served
		}
	}
}

// greeting reports whether the call is one that shops makes until all servers are connected.
func greeting(ctx context.Context) bool {
	return tandem.FromContext(ctx).Metadata.Get("greeting") != ""
}

// Failsafe ignores an error: the reply stays as it was.
func ExampleWithFailMode_failsafe() {
	c, stop := shops(func(context.Context, string) (string, error) {
		return "", errors.New("the cache is down")
	}, "a", client.WithFailMode(client.Failsafe))
	defer stop()
	reply := "nothing cached"
	err := c.Call(context.Background(), "Shop.Do", "", &reply)
	fmt.Println(reply, err)
	// Output: nothing cached <nil>
}

// A call that fails is tried again later; a call that is given up is passed to a function.
func ExampleWithAttempts_failback() {
	lost := make(chan string, 1)
	c, stop := shops(func(ctx context.Context, _ string) (string, error) {
		if call := tandem.FromContext(ctx); call.Metadata.Get("id") == "18" || call.Attempt == 0 {
			return "", tandem.Errorf(tandem.Unavailable, "the audit is down")
		}
		lost <- "17 was made"
		return "", nil
	}, "a", client.WithFailMode(client.Failback),
		client.WithAttempts(client.Attempts{Failback: client.FailbackQueue{Size: 10, Tries: 2, Pause: time.Millisecond}}), // at most 10 calls wait, for two further attempts
		client.WithAttempts(client.Attempts{Failback: client.FailbackQueue{GiveUp: func(call *tandem.Call, err error) {
			lost <- fmt.Sprint(call.Metadata.Get("id"), " is lost: ", err)
		}}}))
	defer stop()
	for _, id := range []string{"17", "18"} {
		fmt.Println(c.Call(context.Background(), "Shop.Do", "", nil, client.Idempotent(), client.Metadata("id", id)))
		fmt.Println(<-lost)
	}
	// Output:
	// <nil>
	// 17 was made
	// <nil>
	// 18 is lost: unavailable: the audit is down
}

// Every instance is called; here two of three are enough.
func ExampleWithAttempts_broadcast() {
	var cleared atomic.Int64
	c, stop := shops(func(ctx context.Context, at string) (string, error) {
		if at == "c" {
			return "", tandem.Errorf(tandem.Internal, "no")
		}
		if !greeting(ctx) {
			cleared.Add(1)
		}
		return "", nil
	}, "abc", client.WithFailMode(client.Broadcast), client.WithAttempts(client.Attempts{BroadcastShare: 0.6, BroadcastAtOnce: 10}))
	defer stop()
	fmt.Println(c.Call(context.Background(), "Shop.Do", "", nil), cleared.Load())
	// Output: <nil> 2
}

// The call goes to three instances; the first response wins, and the contexts of the other
// handlers end.
func ExampleWithAttempts_fork() {
	lost := make(chan string, 2)
	c, stop := shops(func(ctx context.Context, at string) (string, error) {
		if at != "b" && !greeting(ctx) {
			<-ctx.Done()
			lost <- "lost"
		}
		return at, nil
	}, "abc", client.WithFailMode(client.Fork), client.WithAttempts(client.Attempts{Fork: 3}))
	defer stop()
	first, err := client.Invoke[string](context.Background(), c, "Shop.Do", "")
	fmt.Println(*first, err, <-lost, <-lost)
	// Output: b <nil> lost lost
}

// When the client knows the usual latency of a method, a slower call gets a second attempt at
// another instance.
func ExampleWithAttempts_backup() {
	c, stop := shops(func(ctx context.Context, _ string) (string, error) {
		call := tandem.FromContext(ctx)
		if call.Metadata.Get("order") == "large" && call.Attempt == 0 {
			<-ctx.Done() // when the second attempt has answered
		}
		return fmt.Sprint("attempt ", call.Attempt), nil
	}, "ab", client.WithFailMode(client.Backup), client.WithAttempts(client.Attempts{BackupShare: 0.1}))
	defer stop()
	for range 100 {
		check(c.Call(context.Background(), "Shop.Do", "", nil, client.Idempotent()))
	}
	answer, err := client.Invoke[string](context.Background(), c, "Shop.Do", "", client.Idempotent(), client.Metadata("order", "large"))
	fmt.Println(*answer, err)
	// Output: attempt 1 <nil>
}

// An attempt that takes too long fails, and the call goes to another instance.
func ExampleWithAttempts() {
	c, stop := shops(func(ctx context.Context, _ string) (string, error) {
		if tandem.FromContext(ctx).Attempt == 0 && !greeting(ctx) {
			<-ctx.Done() // ends with the attempt
			return "", ctx.Err()
		}
		return fmt.Sprint("attempt ", tandem.FromContext(ctx).Attempt), nil
	}, "ab", client.WithFailMode(client.Failover), client.WithAttempts(client.Attempts{Timeout: 200 * time.Millisecond}))
	defer stop()
	answer, err := client.Invoke[string](context.Background(), c, "Shop.Do", "", client.Idempotent())
	fmt.Println(*answer, err)
	err = c.Call(context.Background(), "Shop.Do", "", nil, client.FailMode(client.Failfast), client.AttemptTimeout(time.Millisecond))
	fmt.Println(err)
	// Output:
	// attempt 1 <nil>
	// deadline exceeded: attempt timed out: no answer within 1ms
}
