package client_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// refuse starts three instances that count calls and refuse them, not executed,
// and a client of them.
func refuse(t *testing.T, attempts *atomic.Int64, opts ...client.Option) *client.Client {
	t.Helper()
	full := server.WithInterceptors(func(tandem.Func) tandem.Func {
		return func(context.Context, *tandem.Call) error {
			attempts.Add(1)
			return &tandem.Error{Code: tandem.ResourceExhausted, Message: "not now", NotExecuted: true}
		}
	})
	mem := transport.NewMemory()
	for _, address := range []string{"a", "b", "c"} {
		serveOn(t, mem, address, methods, full)
	}
	c := dial(t, "static://a,b,c?transport=mem", append(opts, client.WithTransport("mem", mem))...)
	synctest.Wait() // all are connected
	return c
}

// Failfast makes one attempt, Failover goes to another instance each time,
// Failtry to the same.
func TestWhereFailModesGo(t *testing.T) {
	for name, c := range map[string]struct {
		mode                tandem.FailMode
		attempts, instances int
	}{
		"failfast": {client.Failfast, 1, 1},
		"failover": {client.Failover, 3, 3},
		"failtry":  {client.Failtry, 3, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var went []string
				note := client.WithAttemptInterceptors(func(next tandem.Func) tandem.Func {
					return func(ctx context.Context, call *tandem.Call) error {
						err := next(ctx, call)
						went = append(went, call.Peer.Instance)
						return err
					}
				})
				cl := refuse(t, new(atomic.Int64), note, client.WithBalancer(balance.Random())) // which might go anywhere
				for range 20 {
					went = nil
					err := cl.Call(t.Context(), "Arith.Mul", &Args{1, 2}, nil, client.FailMode(c.mode), client.Timeout(time.Minute))
					if tandem.CodeOf(err) != tandem.ResourceExhausted {
						t.Error(err)
					}
					attempts := len(went)
					slices.Sort(went)
					if went = slices.Compact(went); attempts != c.attempts || len(went) != c.instances {
						t.Errorf("%d attempts at %v, want %d at %d", attempts, went, c.attempts, c.instances)
					}
				}
			})
		})
	}
}

// Retries are bounded by default: what is too much already does not get three
// times as much. The budget is 10 % of the calls that succeed, here none, and 10
// a second, and it begins with ten seconds' worth.
func TestDefaultRetryBudget(t *testing.T) {
	for name, mode := range map[string]tandem.FailMode{"failover": client.Failover, "failtry": client.Failtry} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const calls = 1000
				var attempts atomic.Int64
				c := refuse(t, &attempts, client.WithFailMode(mode))
				start := time.Now()
				for range calls {
					if err := c.Call(t.Context(), "Arith.Mul", &Args{1, 2}, nil); tandem.CodeOf(err) != tandem.ResourceExhausted {
						t.Fatal(err)
					}
				}
				seconds := int64(time.Since(start) / time.Second)
				most := calls + 10*seconds + 10*10 + 10 // the last for a second that has begun
				if n := attempts.Load(); n > most || n < calls+10*10 {
					t.Errorf("%d attempts for %d calls in %d s, at most %d allowed", n, calls, seconds, most)
				}
			})
		})
	}
}
