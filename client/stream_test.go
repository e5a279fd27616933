package client_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// A stream has the deadline of its call or of its context, whichever is earlier, on both sides;
// the client's default does not apply.
func TestStreamTimeout(t *testing.T) {
	for name, c := range map[string]struct {
		ctx, option, want time.Duration // 0 for none
	}{
		"of the call":                 {0, 10 * time.Second, 10 * time.Second},
		"of the call, shortly":        {0, 100 * time.Millisecond, 100 * time.Millisecond},
		"of the call, in the context": {time.Minute, 10 * time.Second, 10 * time.Second},
		"of the context":              {10 * time.Second, time.Minute, 10 * time.Second},
		"of the context alone":        {10 * time.Second, 0, 10 * time.Second},
		"none":                        {0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testStreamTimeout(t, c.ctx, c.option, c.want) })
		})
	}
}

func testStreamTimeout(t *testing.T, inContext, option, want time.Duration) {
	const held = 20 * time.Second // longer than any deadline of the test
	deadlines, release := make(chan time.Time, 1), make(chan struct{})
	mem := transport.NewMemory()
	serveOn(t, mem, "a", func(srv *server.Server) error {
		return server.HandleStream(srv, "Test.Hold", func(ctx context.Context, _ *tandem.Stream[int, int]) error {
			d, _ := ctx.Deadline()
			deadlines <- d
			<-release // whatever its context says
			return nil
		})
	})
	ctx, opts := t.Context(), []tandem.CallOption{}
	if inContext > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, inContext)
		defer cancel()
	}
	if option > 0 {
		opts = append(opts, client.Timeout(option))
	}
	start := time.Now()
	time.AfterFunc(held, func() { close(release) })
	s, err := client.Stream[int, int](ctx, dial(t, "mem://a", client.WithTransport("mem", mem)), "Test.Hold", opts...)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Recv()
	took, seen := time.Since(start), <-deadlines
	if want == 0 {
		if took != held || !seen.IsZero() {
			t.Errorf("ended after %v: %v; the handler had until %v", took, err, seen)
		}
		return
	}
	if tandem.CodeOf(err) != tandem.DeadlineExceeded || took != want {
		t.Errorf("got %v after %v", err, took)
	}
	<-s.Context().Done()
	if !seen.Equal(start.Add(want)) || context.Cause(s.Context()) == nil {
		t.Errorf("the handler had until %v", seen)
	}
	<-release
}

// never is a registry that does not answer.
type never struct{}

func (never) Watch(ctx context.Context, _ registry.Target, _ func(registry.Snapshot)) error {
	<-ctx.Done()
	return ctx.Err()
}

// A stream without a deadline does not wait for a connection without limit.
func TestStreamWaitsForAConnectionNoLongerThanOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dial(t, "never://x", client.WithResolver("never", never{}))
		start := time.Now()
		_, err := c.OpenStream(t.Context(), "Test.Talk")
		if tandem.CodeOf(err) != tandem.DeadlineExceeded || tandem.MayHaveExecuted(err) || time.Since(start) != 5*time.Second {
			t.Errorf("got %v after %v", err, time.Since(start))
		}
	})
}
