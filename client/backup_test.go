package client_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
)

// warmUp makes the calls from which a client learns the usual latency.
func warmUp(t *testing.T, c *client.Client) {
	t.Helper()
	for range 200 {
		if _, err := do(t, c, client.Idempotent()); err != nil {
			t.Fatal(err)
		}
	}
}

// jitter is the usual duration of a call: 1 to 2.82 ms. The histogram of durations has a limit at
// 2.83 ms. If somewhat more than 5 % of the calls took longer, then chance would decide whether
// the estimate of the 95th percentile is this limit, and many calls get a second attempt.
func jitter() time.Duration { return time.Millisecond + rand.N(1820*time.Microsecond) }

// A call that takes longer than 95 % of the others gets a second attempt at another instance;
// its response wins, and the context of the first handler ends.
func TestBackupWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan time.Time, 1)
		hang := untilEnd(ended)
		var hangs atomic.Bool
		var second atomic.Value
		cl := newCluster(t, 3, func(ctx context.Context, at string) (string, error) {
			if tandem.FromContext(ctx).Attempt > 0 {
				second.Store(at)
			} else if hangs.CompareAndSwap(true, false) {
				return hang(ctx, at)
			}
			time.Sleep(jitter())
			return at, nil
		})
		c := cl.client(t, client.WithFailMode(client.Backup))
		warmUp(t, c)
		hangs.Store(true)
		start := time.Now()
		said, err := do(t, c, client.Idempotent(), client.Timeout(time.Minute))
		took := time.Since(start)
		if err != nil || said != second.Load() || took < 3*time.Millisecond || took > 7*time.Millisecond {
			t.Errorf("got %q, %v after %v, the second attempt was at %v", said, err, took, second.Load())
		}
		if late := (<-ended).Sub(start) - took; late > time.Millisecond {
			t.Errorf("the first attempt ran for %v after the answer", late)
		}
	})
}

// A call gets no second attempt if it is not idempotent, if there is only one instance, or if
// the usual latency is not known yet.
func TestNoBackup(t *testing.T) {
	for name, c := range map[string]struct {
		servers int
		warm    bool
		opts    []tandem.CallOption
	}{
		"not idempotent":       {2, true, nil},
		"one instance":         {1, true, []tandem.CallOption{client.Idempotent()}},
		"one instance allowed": {2, true, []tandem.CallOption{client.Idempotent(), client.Instance("mem://a")}},
		"unknown latency":      {2, false, []tandem.CallOption{client.Idempotent()}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var slow atomic.Bool
				cl := newCluster(t, c.servers, func(_ context.Context, at string) (string, error) {
					time.Sleep(jitter())
					if slow.Load() {
						time.Sleep(time.Second)
					}
					return at, nil
				})
				cli := cl.client(t, client.WithFailMode(client.Backup))
				if c.warm {
					warmUp(t, cli)
				}
				slow.Store(true)
				before := cl.total()
				if _, err := do(t, cli, c.opts...); err != nil || cl.total() != before+1 {
					t.Errorf("%d attempts, %v", cl.total()-before, err)
				}
			})
		})
	}
}

// A handler that serves a retry makes no second attempt: its caller may.
func TestNoBackupOfARetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slow atomic.Bool
		cl := newCluster(t, 2, func(_ context.Context, at string) (string, error) {
			time.Sleep(jitter())
			if slow.Load() {
				time.Sleep(time.Second)
			}
			return at, nil
		})
		c := cl.client(t, client.WithFailMode(client.Backup))
		warmUp(t, c)
		slow.Store(true)
		for served, want := range []int{2, 1} {
			before := cl.total()
			ctx := tandem.NewContext(t.Context(), &tandem.Call{Attempt: served})
			if err := c.Call(ctx, "Test.Do", "", nil, client.Idempotent()); err != nil || cl.total()-before != want {
				t.Errorf("serving attempt %d: %d attempts, want %d, %v", served, cl.total()-before, want, err)
			}
		}
	})
}

// An instance that reports overload gets no second attempts for a while.
func TestNoBackupForTheOverloaded(t *testing.T) {
	for name, c := range map[string]struct {
		opts []server.Option
		err  error
	}{
		"it refuses":          {nil, &tandem.Error{Code: tandem.ResourceExhausted, Message: "full"}},
		"it asks for a pause": {nil, tandem.Errorf(tandem.NotFound, "not yet").WithRetryAfter(time.Millisecond)},
		"its load report":     {[]server.Option{server.WithMaxConcurrency(10, 0)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var slow, says atomic.Bool
				hang := untilEnd(make(chan time.Time, 100))
				cl := newCluster(t, 2, func(ctx context.Context, at string) (string, error) {
					if tandem.FromContext(ctx).Metadata.Get("hang") != "" {
						return hang(ctx, at)
					}
					time.Sleep(jitter())
					if says.Load() {
						return at, c.err
					}
					if slow.Load() {
						time.Sleep(50 * time.Millisecond)
					}
					return at, nil
				}, c.opts...)
				cli := cl.client(t, client.WithFailMode(client.Backup), client.WithRetries(0))
				warmUp(t, cli)
				attempts := func() int {
					before := cl.total()
					_, _ = do(t, cli, client.Idempotent())
					return cl.total() - before
				}
				says.Store(true)
				if c.opts != nil { // 90 % of the limit is taken, for a second
					for range 9 {
						for _, id := range []string{"mem://a", "mem://b"} {
							cli.Go(t.Context(), "Test.Do", "", nil, nil, client.Metadata("hang", "1"), client.Instance(id), client.Timeout(time.Second))
						}
					}
					synctest.Wait()
				}
				attempts()
				time.Sleep(50 * time.Millisecond) // until the second attempt has ended, too, if there was one
				says.Store(false)
				slow.Store(true)
				if n := attempts(); n != 1 {
					t.Errorf("%d attempts after it said so", n)
				}
				time.Sleep(2 * time.Second)
				if n := attempts(); n != 2 {
					t.Errorf("%d attempts two seconds later", n)
				}
			})
		})
	}
}

// load makes calls at a rate, from many goroutines, and returns how long each
// took, sorted.
func load(t *testing.T, c *client.Client, calls int, every time.Duration) []time.Duration {
	t.Helper()
	took := make([]time.Duration, calls)
	var wg sync.WaitGroup
	for i := range calls {
		wg.Go(func() {
			start := time.Now()
			if _, err := do(t, c, client.Idempotent()); err != nil {
				t.Error(err)
			}
			took[i] = time.Since(start)
		})
		time.Sleep(every)
	}
	wg.Wait()
	slices.Sort(took)
	return took
}

func permille(sorted []time.Duration, n int) time.Duration { return sorted[len(sorted)*n/1000] }

// slowness is ten instances of which one is fifty times slower after the first thousand calls:
// always the same one, or another one every two seconds.
type slowness struct {
	moves bool
	since atomic.Pointer[time.Time]
}

func (s *slowness) do(_ context.Context, at string) (string, error) {
	took := jitter()
	if since := s.since.Load(); since != nil {
		slow := 2
		if s.moves {
			slow = int(time.Since(*since)/(2*time.Second)) % 10
		}
		if at == string(rune('a'+slow)) {
			took = 50 * jitter()
		}
	}
	time.Sleep(took)
	return at, nil
}

// tail measures a quantile of the calls' latency, in thousandths, and the number of second
// attempts for each call.
func (s *slowness) tail(t *testing.T, mode tandem.FailMode, policy balance.Policy, quantile int) (slowest time.Duration, extra float64) {
	t.Helper()
	const warm, calls = 1000, 10_000
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, 10, s.do)
		c := cl.client(t, client.WithFailMode(mode), client.WithBalancer(policy), client.WithEjection(nil)) // ejection would leave out the slow one
		load(t, c, warm, 2*time.Millisecond)
		s.since.Store(new(time.Now()))
		took := load(t, c, calls, 2*time.Millisecond)
		s.since.Store(nil)
		slowest, extra = permille(took, quantile), float64(cl.total())/(warm+calls)-1
		t.Logf("%-15s %-8s moves %-5v p50 %v, p99 %v, p99.9 %v, further attempts %.2f %%", policy.Name(),
			map[tandem.FailMode]string{client.Failover: "failover", client.Backup: "backup"}[mode], s.moves,
			permille(took, 500), permille(took, 990), permille(took, 999), 100*extra)
	})
	return slowest, extra
}

// One of ten instances is fifty times slower. If the policy avoids slow instances, a few calls
// are slow each time it learns of one, and second attempts make most of these quick. If it does
// not, a tenth of the calls is slow, and the budget does not allow as many second attempts.
func TestBackupWithOneSlowInstance(t *testing.T) {
	if raceEnabled {
		t.Skip("it makes 66,000 calls; CI runs the tests without the race detector, too")
	}
	for _, c := range []struct {
		policy   balance.Policy
		moves    bool
		quantile int     // in thousandths
		most     float64 // of the latency without second attempts
		extra    float64
	}{
		// 25 runs: 0.043 with a standard deviation of 0.002. 96 runs: 0.51 % with one of 0.083 %,
		// 5.9 of them: 1e-7.
		{balance.P2C(), true, 999, 0.2, 0.01},
		// Second attempts do not hide a slow instance from the policy. 25 runs: 0.07 % of the
		// calls are slow, with a standard deviation of 0.02 %: 0.3 % are 12 of them, 0.5 % are
		// 24.
		{balance.P2C(), false, 995, 1.1, 0.003},
		// 25 runs: 0.989 with a standard deviation of 0.005: 22 of them. The budget bounds the rest.
		{balance.RoundRobin(), false, 999, 1.1, 0.05001},
	} {
		s := &slowness{moves: c.moves}
		without, _ := s.tail(t, client.Failover, c.policy, c.quantile)
		with, extra := s.tail(t, client.Backup, c.policy, c.quantile)
		if float64(with) > c.most*float64(without) || extra > c.extra {
			t.Errorf("%s, moves %v: %v of 1000 take up to %v, without second attempts %v; %.2f %% of them", c.policy.Name(), c.moves, c.quantile, with, without, 100*extra)
		}
	}
}

// When all instances become slow, there are few second attempts.
func TestBackupWithAllSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slow atomic.Bool
		cl := newCluster(t, 10, func(_ context.Context, at string) (string, error) {
			if slow.Load() {
				time.Sleep(50 * jitter())
			} else {
				time.Sleep(jitter())
			}
			return at, nil
		})
		c := cl.client(t, client.WithFailMode(client.Backup))
		load(t, c, 1000, 2*time.Millisecond)
		slow.Store(true)
		calls := 5000
		if raceEnabled {
			calls = 1000
		}
		before := cl.total()
		load(t, c, calls, 2*time.Millisecond)
		if all := cl.total(); float64(all) > 1.05*float64(1000+calls) || all == before+calls {
			t.Errorf("%d attempts at %d calls", all, 1000+calls)
		} else {
			t.Logf("%d attempts at %d calls, %d of the last %d were further ones", all, 1000+calls, all-before-calls, calls)
		}
	})
}
