package client_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
)

// The call goes to that many different instances; the first response wins, and the contexts of
// the other handlers end.
func TestForkCancelsLosers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan time.Time, 3)
		loser := untilEnd(ended)
		cl := newCluster(t, 3, func(ctx context.Context, at string) (string, error) {
			if at != "b" {
				return loser(ctx, at)
			}
			time.Sleep(10 * time.Millisecond)
			tandem.FromContext(ctx).Trailer = tandem.Metadata{"from": {at}}
			return at, nil
		})
		c := cl.client(t, client.WithFailMode(client.Fork), client.WithAttempts(client.Attempts{Fork: 3}), client.WithBalancer(balance.JumpHash())) // which alone would choose the same again
		start := time.Now()
		var md tandem.Metadata
		said, err := do(t, c, client.Trailer(&md), client.Timeout(time.Minute), client.HashKey("x"))
		if err != nil || said != "b" || md.Get("from") != "b" || time.Since(start) != 10*time.Millisecond {
			t.Errorf("got %q, %v, trailer %v, after %v", said, err, md, time.Since(start))
		}
		for range 2 {
			if late := (<-ended).Sub(start) - 10*time.Millisecond; late > time.Millisecond {
				t.Errorf("a loser ran for %v after the answer", late)
			}
		}
		if cl.at("a") != 1 || cl.at("b") != 1 || cl.at("c") != 1 {
			t.Errorf("calls: %v", cl.calls)
		}
	})
}

// All instances get calls.
func TestForkSpreads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, 4, func(_ context.Context, at string) (string, error) {
			time.Sleep(time.Millisecond) // both have begun then
			return at, nil
		})
		c := cl.client(t, client.WithFailMode(client.Fork), client.WithBalancer(balance.RoundRobin()))
		for range 100 {
			if _, err := do(t, c); err != nil {
				t.Fatal(err)
			}
		}
		for _, at := range cl.names {
			if n := cl.at(at); n < 40 || n > 60 {
				t.Errorf("%d of 200 attempts at %s", n, at)
			}
		}
	})
}

// The failure of one instance does not fail the call; when all fail, the error names them.
func TestForkFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, 2, without("a"))
		if said, err := do(t, cl.client(t, client.WithFailMode(client.Fork))); err != nil || said != "b" {
			t.Errorf("got %q, %v", said, err)
		}
		refused := newCluster(t, 2, well, server.WithInterceptors(func(tandem.Func) tandem.Func {
			return func(context.Context, *tandem.Call) error {
				return (&tandem.Error{Code: tandem.ResourceExhausted, Message: "full", NotExecuted: true}).WithRetryAfter(time.Second)
			}
		}))
		_, err := do(t, refused.client(t, client.WithFailMode(client.Fork)))
		var e *tandem.Error
		want := "2 of 2 attempts failed: mem://a: resource exhausted: full; mem://b: resource exhausted: full"
		other := "2 of 2 attempts failed: mem://b: resource exhausted: full; mem://a: resource exhausted: full"
		if !errors.As(err, &e) || e.Code != tandem.ResourceExhausted || !e.NotExecuted || e.RetryAfter != time.Second || e.Message != want && e.Message != other {
			t.Errorf("got %+v", err)
		}
	})
}

// A call that a draining instance refuses goes to another one.
func TestForkReplacesDrainingInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, 3, well)
		c := cl.client(t, client.WithFailMode(client.Fork))
		for i := range 100 {
			if i == 50 {
				go func() { _ = cl.servers[0].Shutdown(context.Background()) }()
			}
			if _, err := do(t, c); err != nil {
				t.Fatalf("call %d: %v", i, err)
			}
		}
	})
}
