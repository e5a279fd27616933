package client_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/resilience"
)

// stale refuses the responses of the first instance.
type stale struct{}

func (stale) AfterResponseHeader(_ context.Context, call *tandem.Call, err error) error {
	if err == nil && call.Peer.Instance == "mem://a" {
		return tandem.Errorf(tandem.Unavailable, "stale")
	}
	return err
}

func (stale) KeepsNothing() {}

func (s stale) intercept(next tandem.Func) tandem.Func {
	return func(ctx context.Context, call *tandem.Call) error {
		return s.AfterResponseHeader(ctx, call, next(ctx, call))
	}
}

// A response that a plugin or an interceptor has refused does not count: that of another
// attempt does.
func TestRefusedAnswersDoNotCount(t *testing.T) {
	for by, refuses := range map[string]client.Option{
		"a plugin":       client.WithPlugins(stale{}),
		"an interceptor": client.WithAttemptInterceptors(stale{}.intercept),
	} {
		for name, mode := range map[string]tandem.FailMode{"failover": client.Failover, "fork": client.Fork} {
			t.Run(name+" with "+by, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newCluster(t, 2, well).client(t, refuses, client.WithFailMode(mode), client.WithBalancer(balance.RoundRobin()))
					for range 10 {
						if said, err := do(t, c, client.Idempotent()); err != nil || said != "b" {
							t.Errorf("got %q, %v", said, err)
						}
					}
				})
			})
		}
	}
}

// A call may have been executed although its last attempt was not.
func TestAnEarlierAttemptMayHaveExecuted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var errs []error
		c := newCluster(t, 1, well).client(t, client.WithFailMode(client.Failover), client.WithRetries(1),
			client.WithAttemptInterceptors(func(tandem.Func) tandem.Func {
				return func(context.Context, *tandem.Call) error {
					err := errs[0]
					errs = errs[1:]
					return err
				}
			}))
		lost := tandem.Errorf(tandem.Unavailable, "the connection is lost")
		full := &tandem.Error{Code: tandem.ResourceExhausted, Message: "full", NotExecuted: true}
		for _, first := range []*tandem.Error{lost, full} {
			errs = []error{first, full}
			_, err := do(t, c, client.Idempotent())
			if tandem.CodeOf(err) != tandem.ResourceExhausted || tandem.MayHaveExecuted(err) != tandem.MayHaveExecuted(first) {
				t.Errorf("%v, then %v: %v, which may have executed: %v", first, full, err, tandem.MayHaveExecuted(err))
			}
		}
		if !full.NotExecuted {
			t.Error("the attempt's error was changed")
		}
	})
}

// A pause that ends after the call's deadline is not made.
func TestFailtryPausesWithinTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, sick).client(t, client.WithFailMode(client.Failtry), client.WithConnections(client.Connections{Backoff: 10 * time.Second, MaxBackoff: 10 * time.Second}))
		began := time.Now()
		_, err := do(t, c, client.Idempotent(), client.Timeout(50*time.Millisecond))
		if took := time.Since(began); took > 50*time.Millisecond {
			t.Errorf("took %v", took)
		}
		if tandem.CodeOf(err) != tandem.Unavailable || !tandem.MayHaveExecuted(err) {
			t.Errorf("got %v, which may have executed: %v", err, tandem.MayHaveExecuted(err))
		}
	})
}

// signing adds to the metadata of every attempt.
type signing struct{}

func (signing) BeforeRequest(_ context.Context, call *tandem.Call) error {
	if call.Metadata == nil {
		call.Metadata = tandem.Metadata{}
	}
	call.Metadata.Set("signed", "yes")
	return nil
}

// Attempts in the background pass the plugins like others, also if no earlier attempt was sent.
func TestFailbackPassesPlugins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signed := make(chan string, 1)
		cl := newCluster(t, 0, nil)
		c := dial(t, "mem://x", client.WithTransport("mem", cl.network), client.WithPlugins(signing{}), client.WithFailMode(client.Failback))
		if err := c.Call(t.Context(), "Test.Do", "", nil); err != nil {
			t.Fatal(err)
		}
		serveOn(t, cl.network, "x", register("Test.Do", func(ctx context.Context, in *string) (*string, error) {
			signed <- tandem.FromContext(ctx).Metadata.Get("signed")
			return in, nil
		}))
		if got := <-signed; got != "yes" {
			t.Errorf("the attempt is signed %q", got)
		}
	})
}

// Second attempts go to another instance, and do not move the key.
func TestSecondAttemptsLeaveKeysAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 4, well).client(t, client.WithBalancer(balance.Sticky(balance.RoundRobin())))
		home, err := do(t, c, client.HashKey("k"))
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			if _, err := do(t, c, client.HashKey("k"), client.FailMode(client.Fork)); err != nil {
				t.Fatal(err)
			}
			if now, err := do(t, c, client.HashKey("k")); err != nil || now != home {
				t.Errorf("the key is at %q, %v, and was at %q", now, err, home)
			}
		}
	})
}

// Fork calls only instances whose breaker for the method is closed.
func TestForkKeepsToBreakers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, 4, without("ab"))
		c := cl.client(t, client.WithBalancer(balance.RoundRobin()), client.WithEjection(nil),
			client.WithBreaker(resilience.BreakerConfig{Consecutive: 1, Pause: time.Hour}))
		for range 8 {
			_, _ = do(t, c) // until the breakers of two are open
		}
		before := cl.at("a") + cl.at("b")
		for range 20 {
			if said, err := do(t, c, client.FailMode(client.Fork)); err != nil || said == "a" || said == "b" {
				t.Errorf("got %q, %v", said, err)
			}
		}
		if n := cl.at("a") + cl.at("b") - before; n != 0 {
			t.Errorf("%d calls came through open breakers", n)
		}
		_, err := do(t, c, client.Instance("mem://a"))
		if want := `unavailable: the circuit breaker of Test.Do is open at "mem://a"`; err == nil || err.Error() != want {
			t.Errorf("at one of them: %v, want %s", err, want)
		}
	})
}

// An attempt whose interceptor calls runtime.Goexit fails, and nothing else does.
func TestAttemptThatEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leaves := func(next tandem.Func) tandem.Func {
			return func(ctx context.Context, call *tandem.Call) error {
				if call.Pin == "mem://a" {
					runtime.Goexit()
				}
				return next(ctx, call)
			}
		}
		c := newCluster(t, 2, well).client(t, client.WithAttemptInterceptors(leaves))
		if said, err := do(t, c, client.FailMode(client.Fork)); err != nil || said != "b" {
			t.Errorf("fork: %q, %v", said, err)
		}
		if _, err := do(t, c, client.FailMode(client.Broadcast)); tandem.CodeOf(err) != tandem.Internal {
			t.Errorf("broadcast: %v", err)
		}
		if p := <-c.Go(t.Context(), "Test.Do", "", nil, nil, client.Instance("mem://a")).Done; tandem.CodeOf(p.Error) != tandem.Internal {
			t.Errorf("by Go: %v", p.Error)
		}
	})
}
