package client_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
)

// An attempt that takes too long fails, its handler's context ends, and the call goes to
// another instance if that can do no harm.
func TestAttemptTimeout(t *testing.T) {
	for name, c := range map[string]struct {
		mode     tandem.FailMode
		call     []tandem.CallOption
		attempts int
		took     time.Duration
		ok       bool
	}{
		"failover":                {client.Failover, []tandem.CallOption{client.Idempotent()}, 2, 100 * time.Millisecond, true},
		"it may have run":         {client.Failover, nil, 1, 100 * time.Millisecond, false},
		"failfast":                {client.Failfast, []tandem.CallOption{client.Idempotent()}, 1, 100 * time.Millisecond, false},
		"of the call":             {client.Failover, []tandem.CallOption{client.Idempotent(), client.AttemptTimeout(30 * time.Millisecond)}, 2, 30 * time.Millisecond, true},
		"none, of the call":       {client.Failover, []tandem.CallOption{client.Idempotent(), client.AttemptTimeout(-1), client.Timeout(time.Second)}, 1, time.Second, false},
		"the deadline is sooner":  {client.Failover, []tandem.CallOption{client.Idempotent(), client.Timeout(50 * time.Millisecond)}, 1, 50 * time.Millisecond, false},
		"failback tries it later": {client.Failback, []tandem.CallOption{client.Idempotent()}, 1, 100 * time.Millisecond, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ended := make(chan time.Time, 1)
				hang := untilEnd(ended)
				cl := newCluster(t, 2, func(ctx context.Context, at string) (string, error) {
					if tandem.FromContext(ctx).Attempt == 0 {
						return hang(ctx, at)
					}
					return at, nil
				})
				cli := cl.client(t, client.WithFailMode(c.mode), client.WithAttempts(client.Attempts{Timeout: 100 * time.Millisecond}))
				start := time.Now()
				said, err := do(t, cli, c.call...)
				took := time.Since(start)
				if (err == nil) != c.ok || cl.total() != c.attempts || took < c.took || took > c.took+20*time.Millisecond {
					t.Errorf("got %q, %v, %d attempts in %v", said, err, cl.total(), took)
				}
				if late := (<-ended).Sub(start) - c.took; late < -time.Millisecond || late > 20*time.Millisecond {
					t.Errorf("the handler ended %v after the attempt", late)
				}
				outer := strings.Contains(name, "deadline") || strings.Contains(name, "none")
				if err != nil && (tandem.CodeOf(err) != tandem.DeadlineExceeded || strings.Contains(err.Error(), "attempt timed out") == outer) {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

// The call's deadline stays as it was for the next attempt, and for interceptors.
func TestAttemptTimeoutLeavesTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var after time.Duration
		c := newCluster(t, 1, untilEnd(make(chan time.Time, 10))).client(t, client.WithAttempts(client.Attempts{Timeout: time.Second}),
			client.WithInterceptors(func(next tandem.Func) tandem.Func {
				return func(ctx context.Context, call *tandem.Call) error {
					err := next(ctx, call)
					after = time.Until(call.Deadline)
					return err
				}
			}))
		if _, err := do(t, c, client.Timeout(time.Minute)); tandem.CodeOf(err) != tandem.DeadlineExceeded || after < 58*time.Second {
			t.Errorf("%v, and %v are left", err, after)
		}
	})
}
