package client_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// If a method's only instance refuses most calls, a client sends about twice as many as are
// accepted, and one a second if none is. It sends all again when the server says that no call
// waits. Calls of another method are not affected.
func TestThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var came, accepts atomic.Int64
		network := transport.NewMemory()
		refuse := func(next tandem.Func) tandem.Func {
			return func(ctx context.Context, call *tandem.Call) error {
				if call.Method != "Test.Some" {
					return next(ctx, call)
				}
				if came.Add(1); accepts.Add(-1) < 0 {
					return &tandem.Error{Code: tandem.ResourceExhausted, Message: "too much", NotExecuted: true, RetryAfter: time.Millisecond}
				}
				return next(ctx, call)
			}
		}
		serveOn(t, network, "a", func(srv *server.Server) error {
			echo := func(_ context.Context, n *int) (*int, error) { return n, nil }
			hang := func(ctx context.Context, n *int) (*int, error) {
				<-ctx.Done()
				return n, ctx.Err()
			}
			return errors.Join(server.Handle(srv, "Test.Some", echo), server.Handle(srv, "Test.Other", echo),
				server.Handle(srv, "Test.Hang", hang, server.MethodConcurrency(1, 1)))
		}, server.WithInterceptors(refuse))
		c, err := client.Dial("memory://a", client.WithTransport("memory", network), client.WithFailMode(client.Failfast))
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}()
		busy, calm := context.WithCancel(t.Context())
		defer calm()
		for range 2 { // one of them waits, as the server's answers say
			c.Go(busy, "Test.Hang", new(int), new(int), nil, client.Timeout(time.Hour))
		}
		synctest.Wait()
		// second makes 100 calls in a second, and returns how many of them were sent.
		second := func(accepted int64) (sent int64) {
			came.Store(0)
			accepts.Store(accepted)
			for range 100 {
				_ = c.Call(t.Context(), "Test.Some", new(int), new(int)) // most are refused
				time.Sleep(10 * time.Millisecond)
			}
			return came.Load()
		}
		if sent := second(1000); sent != 100 {
			t.Fatalf("%d of 100 calls were sent before any was refused", sent)
		}
		for range 30 {
			second(0)
		}
		sent, seconds := int64(0), int64(30) // of one second the number varies
		for range seconds {
			sent += second(0)
		}
		if sent < seconds || sent > 5*seconds {
			t.Errorf("%d of 100 calls a second were sent while all are refused, want 1 to 5", sent/seconds)
		}
		if x := c.Describe("Test.Some"); x.Attempts[0].Instances[0].Throttle < 0.9 || !strings.Contains(x.String(), "are not sent") {
			t.Errorf("explained as %v", x)
		}
		if x := c.Describe("Test.Other"); x.Attempts[0].Instances[0].Throttle != 0 {
			t.Errorf("another method is explained as %v", x)
		}
		if err := c.Call(t.Context(), "Test.Other", new(int), new(int)); err != nil {
			t.Errorf("a method that is not refused: %v", err)
		}
		for range 30 {
			second(20)
		}
		sent = 0
		for range seconds {
			sent += second(20)
		}
		if sent < 30*seconds || sent > 55*seconds {
			t.Errorf("%d of 100 calls a second were sent while 20 are accepted, want 40", sent/seconds)
		}
		calm()
		second(1000)
		if sent := second(1000); sent != 100 {
			t.Errorf("%d of 100 calls were sent after the server had said that none waits", sent)
		}
	})
}

// The constants are options: without a throttle all calls are sent, and another Probe and
// another share send more of them.
func TestThrottleConstants(t *testing.T) {
	for name, c := range map[string]struct {
		throttle    *client.Throttle
		least, most int64 // calls of 100 a second that are sent while all are refused
	}{
		"none":    {nil, 100, 100},
		"default": {&client.Throttle{}, 1, 5},
		"probes":  {&client.Throttle{Probe: 100 * time.Millisecond}, 8, 15},
		"forgets": {&client.Throttle{Fades: 20 * time.Millisecond, Accepted: 1000}, 6, 60},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var came atomic.Int64
				network := transport.NewMemory()
				serveOn(t, network, "a", func(srv *server.Server) error {
					return server.Handle(srv, "Test.Some", func(_ context.Context, n *int) (*int, error) { return n, nil })
				}, server.WithInterceptors(func(tandem.Func) tandem.Func {
					return func(context.Context, *tandem.Call) error {
						came.Add(1)
						return &tandem.Error{Code: tandem.ResourceExhausted, Message: "too much", NotExecuted: true, RetryAfter: time.Millisecond}
					}
				}))
				cl, err := client.Dial("memory://a", client.WithTransport("memory", network), client.WithFailMode(client.Failfast), client.WithThrottle(c.throttle))
				if err != nil {
					t.Fatal(err)
				}
				defer func() {
					if err := cl.Close(); err != nil {
						t.Error(err)
					}
				}()
				for range 3000 {
					_ = cl.Call(t.Context(), "Test.Some", new(int), new(int)) // it is refused
					time.Sleep(10 * time.Millisecond)
				}
				came.Store(0)
				for range 3000 {
					_ = cl.Call(t.Context(), "Test.Some", new(int), new(int)) // likewise
					time.Sleep(10 * time.Millisecond)
				}
				if n := came.Load() / 30; n < c.least || n > c.most {
					t.Errorf("%d calls a second were sent, want %d to %d", n, c.least, c.most)
				}
			})
		})
	}
}
