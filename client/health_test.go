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
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/resilience"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// patient is a server whose latency and errors a test sets.
type patient struct {
	took  atomic.Int64 // ns
	ill   atomic.Pointer[error]
	nth   atomic.Int64 // only each nth call fails; 0 for all
	calls atomic.Int64
}

func (p *patient) fall(err error) { p.ill.Store(&err) }

func (p *patient) serve(context.Context, *Args) (*Reply, error) {
	n := p.calls.Add(1)
	time.Sleep(time.Duration(p.took.Load()))
	if err := p.ill.Load(); err != nil && n%max(1, p.nth.Load()) == 0 {
		return nil, *err
	}
	return new(Reply), nil
}

// ward is ten servers and a client of them with a round robin, in virtual time.
type ward struct {
	t       *testing.T
	servers [10]patient
	client  *client.Client
}

func newWard(t *testing.T, opts ...client.Option) *ward {
	t.Helper()
	w := &ward{t: t}
	mem, members := transport.NewMemory(), registry.NewMemory()
	for i := range w.servers {
		name := string(rune('a' + i))
		serveOn(t, mem, name, func(srv *server.Server) error {
			return errors.Join(server.Handle(srv, "Test.Do", w.servers[i].serve), server.Handle(srv, "Test.Echo", echo))
		})
		list(t, members, name)
		w.servers[i].took.Store(int64(10 * time.Millisecond))
	}
	w.client = dial(t, "memory://ward", append([]client.Option{
		client.WithTransport("mem", mem), client.WithResolver("memory", members), client.WithBalancer(balance.RoundRobin()),
	}, opts...)...)
	synctest.Wait() // all are connected
	return w
}

// run makes 200 calls a second for that time and returns how many of them went to the first
// server, and how many failed.
func (w *ward) run(d time.Duration) (toFirst, failed int64) {
	w.t.Helper()
	return w.runEvery(5*time.Millisecond, d)
}

// runEvery is run with that pause between calls.
func (w *ward) runEvery(pause, d time.Duration) (toFirst, failed int64) {
	w.t.Helper()
	before := w.servers[0].calls.Load()
	var errs atomic.Int64
	for range d / pause {
		go func() {
			if w.client.Call(w.t.Context(), "Test.Do", &Args{}, new(Reply)) != nil {
				errs.Add(1)
			}
		}()
		time.Sleep(pause)
	}
	time.Sleep(6 * time.Second) // until the last of them have ended
	synctest.Wait()
	return w.servers[0].calls.Load() - before, errs.Load()
}

// inWard runs f in virtual time.
func inWard(t *testing.T, f func(t *testing.T, w *ward), opts ...client.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newWard(t, opts...)) })
}

func TestFailingInstanceIsLeftOut(t *testing.T) {
	inWard(t, func(t *testing.T, w *ward) {
		w.servers[0].fall(tandem.Errorf(tandem.Internal, "ill"))
		if n, failed := w.run(10 * time.Second); n > 10 || failed != n {
			t.Errorf("%d of 2000 calls went to an instance that fails, %d failed; want 5 and a probe each 5 s", n, failed)
		}
		w.servers[0].ill.Store(nil)
		w.runEvery(50*time.Millisecond, 30*time.Second) // it is left out for 20 s by now
		if n, failed := w.run(time.Second); n < 18 || failed != 0 {
			t.Errorf("when it is well again it gets %d of 200 calls, %d fail", n, failed)
		}
	})
}

func TestSlowInstanceIsLeftOut(t *testing.T) {
	manyCalls(t)
	inWard(t, func(t *testing.T, w *ward) {
		w.run(time.Second)
		w.servers[0].took.Store(int64(500 * time.Millisecond))
		w.run(5 * time.Second)
		if n, failed := w.run(10 * time.Second); n > 20 || failed != 0 {
			t.Errorf("%d of 2000 calls went to an instance that is 50 times slower, %d failed", n, failed)
		}
	})
}

// When an instance is back, the latency limit for which it was ejected is dropped: if it is
// ejected for another reason, and all instances have become slower by then, it comes back
// nevertheless.
func TestLatencyLimitIsDropped(t *testing.T) {
	manyCalls(t)
	inWard(t, func(t *testing.T, w *ward) {
		w.run(time.Second)
		w.servers[0].took.Store(int64(500 * time.Millisecond))
		w.run(10 * time.Second)
		for i := range w.servers {
			w.servers[i].took.Store(int64(10 * time.Millisecond))
		}
		w.run(2 * time.Minute)
		if n, _ := w.run(time.Second); n < 18 {
			t.Fatalf("when it is quick again it gets %d of 200 calls", n)
		}
		for i := range w.servers {
			w.servers[i].took.Store(int64(300 * time.Millisecond))
		}
		w.run(time.Minute)
		w.servers[0].fall(tandem.Errorf(tandem.Internal, "ill"))
		w.run(10 * time.Second)
		w.servers[0].ill.Store(nil)
		w.run(2 * time.Minute)
		if n, _ := w.run(time.Second); n < 18 {
			t.Errorf("when it is well again, and as slow as all, it gets %d of 200 calls", n)
		}
	})
}

// TestErrorsThatDoNotEject makes one server answer with errors for which it must not be
// ejected.
func TestErrorsThatDoNotEject(t *testing.T) {
	for _, err := range []error{
		errors.New("a reason of the method's own"),
		tandem.Errorf(tandem.NotFound, "no such thing"),
		tandem.Errorf(tandem.ResourceExhausted, "busy"),
		context.Canceled,
	} {
		inWard(t, func(t *testing.T, w *ward) {
			w.servers[0].fall(err)
			if n, _ := w.run(3 * time.Second); n != 60 {
				t.Errorf("an instance that answers %v gets %d of 600 calls, want its share", err, n)
			}
		})
	}
}

func TestWhenAllFailNoneIsEjected(t *testing.T) {
	inWard(t, func(t *testing.T, w *ward) {
		for i := range w.servers {
			w.servers[i].fall(tandem.Errorf(tandem.Unavailable, "ill"))
		}
		w.run(time.Second)
		if n, failed := w.run(2 * time.Second); n < 20 || failed != 400 {
			t.Errorf("one of ten that all fail gets %d of 400 calls, %d failed", n, failed)
		}
		for i := range w.servers {
			w.servers[i].ill.Store(nil)
		}
		if _, failed := w.run(time.Second); failed != 0 {
			t.Errorf("when they are well again %d of 200 calls fail", failed)
		}
	})
}

// TestEndOfAConnectionIsOneFailure ends a server with many calls in flight: it gets calls again
// as soon as it is back.
func TestEndOfAConnectionIsOneFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, 2, func(ctx context.Context, at string) (string, error) {
			if at == "a" {
				<-ctx.Done() // it never answers
			}
			return at, ctx.Err()
		})
		c := cl.client(t, client.WithBalancer(balance.RoundRobin()))
		for range 40 {
			go c.Call(t.Context(), "Test.Do", "", nil) // half of them fail
		}
		synctest.Wait()
		cl.servers[0].Close()
		synctest.Wait()
		serveOn(t, cl.network, "a", methods)
		time.Sleep(time.Second) // it connects again
		for _, in := range c.Describe("Test.Do").Attempts[0].Instances {
			if in.Breaker != "closed" || in.Unusable != "" {
				t.Errorf("after its connection has ended with 20 calls in flight: %+v", in)
			}
		}
	})
}

func TestWithoutEjectionNoneIsEjected(t *testing.T) {
	inWard(t, func(t *testing.T, w *ward) {
		w.servers[0].fall(tandem.Errorf(tandem.Internal, "ill"))
		if n, _ := w.run(3 * time.Second); n != 60 {
			t.Errorf("%d of 600 calls, want a tenth", n)
		}
	}, client.WithEjection(nil))
}

func TestMethodBreaker(t *testing.T) {
	inWard(t, func(t *testing.T, w *ward) {
		for i := range w.servers {
			w.servers[i].fall(tandem.Errorf(tandem.Internal, "ill"))
		}
		w.run(time.Second)
		before := w.servers[0].calls.Load()
		err := w.client.Call(t.Context(), "Test.Do", &Args{}, new(Reply))
		if tandem.CodeOf(err) != tandem.Unavailable || tandem.MayHaveExecuted(err) || !strings.Contains(err.Error(), "circuit breaker of Test.Do") {
			t.Errorf("with all breakers open: %v", err)
		}
		if err := w.client.Call(t.Context(), "Test.Echo", []byte("x"), nil); err != nil {
			t.Errorf("another method: %v", err)
		}
		if n := w.servers[0].calls.Load() - before; n != 0 {
			t.Errorf("%d calls came through an open breaker", n)
		}
		for i := range w.servers {
			w.servers[i].ill.Store(nil)
		}
		time.Sleep(time.Minute)
		w.run(time.Second)
		if n, failed := w.run(time.Second); n != 20 || failed != 0 {
			t.Errorf("when all are well again one of ten gets %d of 200 calls, %d fail", n, failed)
		}
	}, client.WithBreaker(resilience.BreakerConfig{Pause: time.Minute}), client.WithEjection(nil))
}

// An instance that was as quick as the others, and refuses all calls at once, gets no more than
// its tenth of them as time goes by, nor after a pause in which its statistics fade.
func TestRefusalsDrawNoCalls(t *testing.T) {
	manyCalls(t)
	inWard(t, func(t *testing.T, w *ward) {
		w.run(5 * time.Second)
		w.servers[0].took.Store(0)
		w.servers[0].fall(tandem.Errorf(tandem.ResourceExhausted, "busy"))
		for range 2 {
			w.run(time.Minute)
			time.Sleep(time.Minute)
			if n, _ := w.run(30 * time.Second); n > 750 { // binomial, 600 of 6,000: 6.4 standard deviations, 6e-11
				t.Errorf("one of ten that refuses all gets %d of 6000 calls", n)
			}
		}
	}, client.WithBalancer(balance.P2C()))
}

// While more instances fail than may be left out, the others keep most of their share: calls
// that fail at once do not attract more of them.
func TestHealthyInstancesKeepTheirShare(t *testing.T) {
	manyCalls(t)
	for _, code := range []tandem.Code{tandem.ResourceExhausted, tandem.Internal} {
		t.Run(code.String(), func(t *testing.T) {
			inWard(t, func(t *testing.T, w *ward) {
				w.run(5 * time.Second)
				for i := range w.servers[:7] {
					w.servers[i].took.Store(0)
					w.servers[i].fall(tandem.Errorf(code, "busy"))
				}
				w.run(2 * time.Minute)
				// Both of two drawn instances fail in 42 of 90 cases, and the failing one of
				// two is taken in half of 42 others: 1,400, with a standard deviation of 21, by
				// chance above 1,540 once in 10^11 times.
				if _, failed := w.run(10 * time.Second); failed > 1540 {
					t.Errorf("%d of 2000 calls fail with %v where seven of ten fail all", failed, code)
				}
			}, client.WithBalancer(balance.P2C()))
		})
	}
}

// Failures before a pause in the traffic do not count among those of the last seconds.
func TestOldFailuresAreForgotten(t *testing.T) {
	inWard(t, func(t *testing.T, w *ward) {
		w.servers[0].nth.Store(3)
		w.servers[0].fall(tandem.Errorf(tandem.Internal, "ill"))
		w.run(time.Second)
		w.servers[0].ill.Store(nil)
		time.Sleep(time.Minute)
		n, failed := w.run(500 * time.Millisecond)
		if n != 10 || failed != 0 {
			t.Errorf("one that has been well for a minute gets %d of 100 calls, %d fail", n, failed)
		}
		for _, in := range w.client.Describe("Test.Do").Attempts[0].Instances {
			if in.Breaker != "closed" {
				t.Errorf("%s: its breaker is %s", in.ID, in.Breaker)
			}
		}
		w.servers[0].fall(tandem.Errorf(tandem.Internal, "ill"))
		if n, _ := w.run(4 * time.Second); n > 30 {
			t.Errorf("one that fails a third of its calls gets %d of 800", n)
		}
	})
}

// Outliers are found although calls come in bursts of less than a second.
func TestOutliersInBursts(t *testing.T) {
	manyCalls(t)
	inWard(t, func(t *testing.T, w *ward) {
		w.servers[0].nth.Store(3)
		w.servers[0].fall(tandem.Errorf(tandem.Internal, "ill"))
		var calls int64
		for range 20 {
			n, _ := w.run(900 * time.Millisecond)
			calls += n
			time.Sleep(10 * time.Second)
		}
		if calls > 180 {
			t.Errorf("one of ten that fails a third of its calls gets %d of 3600", calls)
		}
	})
}

// manyCalls skips a test under the race detector if its calls would take a minute there; the
// other tests find the same races.
func manyCalls(t *testing.T) {
	t.Helper()
	if raceEnabled {
		t.Skip("made without the race detector")
	}
}
