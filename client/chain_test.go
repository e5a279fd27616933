package client_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// relay returns the clients of a chain of clusters, one for each layer: each layer's servers
// call the next layer with the context of their own call, and the last ones run leaf. The first
// client is the outermost one.
func relay(t *testing.T, layers int, leaf deed, opts ...client.Option) (*client.Client, []*cluster) {
	t.Helper()
	clusters := make([]*cluster, layers)
	var c *client.Client
	for i := layers - 1; i >= 0; i-- {
		next, f := c, leaf
		if next != nil {
			f = func(ctx context.Context, _ string) (said string, err error) {
				err = next.Call(ctx, "Test.Do", "", &said, client.Idempotent())
				return said, err
			}
		}
		clusters[i] = newCluster(t, 3, f)
		c = clusters[i].client(t, opts...)
	}
	return c, clusters
}

// A failure at the end of a chain is not multiplied on the way: one layer retries, within its
// budget.
func TestRetriesAlongAChain(t *testing.T) {
	manyCalls(t)
	for _, layers := range []int{1, 4} {
		for name, mode := range map[string]tandem.FailMode{"failover": client.Failover, "failtry": client.Failtry, "backup": client.Backup} {
			synctest.Test(t, func(t *testing.T) {
				c, clusters := relay(t, layers, sick, client.WithFailMode(mode), client.WithConnections(client.Connections{Backoff: time.Millisecond, MaxBackoff: time.Millisecond}))
				const calls = 5_000
				for i := range calls { // 1,000 a second
					if _, _ = do(t, c, client.Idempotent()); i%50 == 0 {
						time.Sleep(50 * time.Millisecond)
					}
				}
				most := 1.2
				if layers == 1 {
					most = 1.1
				}
				perCall := float64(clusters[layers-1].total()) / float64(calls)
				t.Logf("%d layers, %s: %.4f attempts at the leaf for each of %d calls", layers, name, perCall, calls)
				if perCall > most || perCall <= 1 {
					t.Errorf("%d layers, %s: %.3f attempts at the leaf for each call, at most %v", layers, name, perCall, most)
				}
				for i, cl := range clusters[:layers-1] {
					if n := cl.total(); n != calls {
						t.Errorf("%d layers, %s: %d calls at layer %d, want %d", layers, name, n, i+1, calls)
					}
				}
			})
		}
	}
}

// A handler that serves a retry makes no retries: its caller does.
func TestARetryIsNotRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for attempt, want := range []int{3, 1} {
			c, clusters := relay(t, 2, sick, client.WithFailMode(client.Failover))
			serve := func(call *tandem.Call) { call.Attempt = attempt; call.FailMode = client.Failfast }
			if _, err := do(t, c, client.Idempotent(), serve); tandem.CodeOf(err) != tandem.Unavailable {
				t.Error(err)
			}
			if n := clusters[1].total(); n != want {
				t.Errorf("the served call is attempt %d: %d attempts, want %d", attempt, n, want)
			}
		}
	})
}

// An error that retries could not mend is marked for all callers above, also if a handler wraps
// it; an error of a single attempt is not.
func TestUnmendedErrorsAreMarked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sentinel := &tandem.Error{Code: tandem.Unavailable, Message: "a local reason"}
		local := client.WithAttemptInterceptors(func(tandem.Func) tandem.Func {
			return func(context.Context, *tandem.Call) error { return sentinel }
		})
		for name, c := range map[string]struct {
			opts []client.Option
			call []tandem.CallOption
			want time.Duration
		}{
			"attempts are used up": {[]client.Option{client.WithFailMode(client.Failover)}, []tandem.CallOption{client.Idempotent()}, tandem.DoNotRetry},
			"the budget is spent": {
				[]client.Option{client.WithFailMode(client.Failover), client.WithAttempts(client.Attempts{Budget: &policy.Budget{}})},
				[]tandem.CallOption{client.Idempotent()}, tandem.DoNotRetry,
			},
			"none are to be made":   {[]client.Option{client.WithFailMode(client.Failover), client.WithRetries(0)}, []tandem.CallOption{client.Idempotent()}, 0},
			"it may have run":       {[]client.Option{client.WithFailMode(client.Failover)}, nil, 0},
			"failfast":              {nil, []tandem.CallOption{client.Idempotent()}, 0},
			"an error of this side": {[]client.Option{client.WithFailMode(client.Failover), local}, []tandem.CallOption{client.Idempotent()}, tandem.DoNotRetry},
		} {
			_, err := do(t, newCluster(t, 3, sick).client(t, c.opts...), c.call...)
			var e *tandem.Error
			if !errors.As(err, &e) || e.RetryAfter != c.want || e.Code != tandem.Unavailable {
				t.Errorf("%s: %+v, want %v", name, err, c.want)
			}
			if name == "an error of this side" && !errors.Is(err, sentinel) {
				t.Errorf("%v is not what it was", err)
			}
		}
	})
}

// leafTime is the time limit that the last layer sees.
type leafTime struct {
	left    time.Duration
	started chan struct{}
	ended   chan time.Time
}

func (l *leafTime) wait(ctx context.Context, _ string) (string, error) {
	deadline, _ := ctx.Deadline()
	l.left = time.Until(deadline)
	close(l.started)
	<-ctx.Done()
	l.ended <- time.Now()
	return "", ctx.Err()
}

// The time left for a call is passed along a chain, less what was used on the way, even if
// clients on the way would give more time. The end of the call is passed on, too.
func TestDeadlineAlongAChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leaf := &leafTime{started: make(chan struct{}), ended: make(chan time.Time, 1)}
		c, clusters := relay(t, 4, leaf.wait, client.WithTimeout(time.Hour), client.WithAttemptInterceptors(func(next tandem.Func) tandem.Func {
			return func(ctx context.Context, call *tandem.Call) error {
				time.Sleep(10 * time.Millisecond) // the duration of each hop
				return next(ctx, call)
			}
		}))
		start := time.Now()
		_, err := do(t, c, client.Timeout(200*time.Millisecond))
		if tandem.CodeOf(err) != tandem.DeadlineExceeded {
			t.Error(err)
		}
		after := (<-leaf.ended).Sub(start)
		if leaf.left < 159*time.Millisecond || leaf.left > 160*time.Millisecond {
			t.Errorf("the leaf has %v of 200 ms, after four times 10", leaf.left)
		}
		if after < 199*time.Millisecond || after > 220*time.Millisecond {
			t.Errorf("the leaf ended after %v", after)
		}
		before := clusters[3].total()
		if _, err := do(t, c, client.Timeout(25*time.Millisecond)); tandem.CodeOf(err) != tandem.DeadlineExceeded {
			t.Error(err)
		}
		time.Sleep(time.Second)
		if n := clusters[3].total() - before; n != 0 {
			t.Errorf("%d calls came to the leaf after their time", n)
		}
	})
}

// A cancellation by the caller reaches the end of the chain at once.
func TestCancelAlongAChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leaf := &leafTime{started: make(chan struct{}), ended: make(chan time.Time, 1)}
		c, _ := relay(t, 4, leaf.wait, client.WithTimeout(time.Hour))
		ctx, cancel := context.WithCancel(t.Context())
		called := make(chan error, 1)
		go func() { called <- c.Call(ctx, "Test.Do", "", nil) }()
		<-leaf.started
		time.Sleep(time.Second)
		start := time.Now()
		cancel()
		if err := <-called; tandem.CodeOf(err) != tandem.Canceled {
			t.Error(err)
		}
		late := (<-leaf.ended).Sub(start)
		t.Logf("the cancel came to the leaf after %v", late)
		if late > 20*time.Millisecond {
			t.Errorf("the cancel came to the leaf after %v", late)
		}
	})
}

// Calls whose deadline passes while they wait in a queue do not start.
func TestExpiredCallsDoNotStart(t *testing.T) {
	for name, opts := range map[string][]server.Option{
		"behind others in the reader": nil,
		"in the queue of a limit":     {server.WithMaxConcurrency(1, 1000)},
	} {
		synctest.Test(t, func(t *testing.T) {
			mem := transport.NewMemory()
			var late, began atomic.Int64
			begin := func(ctx context.Context) {
				began.Add(1)
				if deadline, _ := ctx.Deadline(); !time.Now().Before(deadline) {
					late.Add(1)
				}
			}
			serveOn(t, mem, "a", func(srv *server.Server) error {
				return errors.Join(
					server.Handle(srv, "Test.Work", func(ctx context.Context, _ *int) (*int, error) {
						begin(ctx)
						time.Sleep(150 * time.Microsecond) // the reader runs handlers that take no longer than this
						return new(int), nil
					}),
					server.HandleStream(srv, "Test.Stream", func(ctx context.Context, _ *tandem.Stream[int, int]) error { // never in the reader
						begin(ctx)
						return nil
					}))
			}, opts...)
			c := dial(t, "mem://a", client.WithTransport("mem", mem))
			synctest.Wait()
			const calls = 300
			done := make(chan *client.Pending, calls)
			for range calls {
				c.Go(t.Context(), "Test.Work", 1, nil, done, client.Timeout(20*time.Millisecond))
				go func() { _, _ = c.OpenStream(t.Context(), "Test.Stream", client.Timeout(20*time.Millisecond)) }()
			}
			for range calls {
				<-done
			}
			time.Sleep(10 * time.Second)
			t.Logf("%s: %d of %d calls began", name, began.Load(), 2*calls)
			if n := began.Load(); late.Load() > 0 || n == 2*calls || n < 50 {
				t.Errorf("%s: %d calls began, %d of them late", name, n, late.Load())
			}
		})
	}
}
