package client_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// Two policies that differ in everything.
const (
	policyA = `{
		"version": "A", "balancer": {"pick": "round-robin"}, "ejection": {"off": true}, "retryBudget": {"share": 1, "perSecond": 1000000},
		"methods": {"Try.It": {"timeout": "1h", "attemptTimeout": "30m", "failMode": "failtry", "retries": 1, "idempotent": true}}
	}`
	policyB = `{
		"version": "B", "balancer": {"pick": "p2c", "slowStart": "1s"}, "ejection": {"maxShare": 0.5}, "retryBudget": {"share": 0.9, "perSecond": 900000},
		"methods": {"Try.*": {"timeout": "9h", "attemptTimeout": "8h", "failMode": "failover", "retries": 3, "idempotent": true,
			"breaker": {"consecutive": -1, "minCalls": 1000000000}}}
	}`
)

type traceKey struct{}

// trace is a record of one call.
type trace struct {
	retries  int // that the policy allows whose time the call has
	attempts int
	mixed    []string // values of different policies
}

// begins records how much time the whole call has: up to an hour by policy A, 9 by B.
func (tr *trace) begins(call *tandem.Call) {
	switch left := time.Until(call.Deadline); {
	case left > 59*time.Minute && left < time.Hour:
		tr.retries = 1
	case left > 8*time.Hour+59*time.Minute && left < 9*time.Hour:
		tr.retries = 3
	default:
		tr.mixed = append(tr.mixed, fmt.Sprintf("%v for the call", left))
	}
}

// attempt records how much time an attempt has: up to half an hour by policy A, 8 by B.
func (tr *trace) attempt(call *tandem.Call) {
	tr.attempts++
	left, want := time.Until(call.Deadline), 30*time.Minute
	if tr.retries == 3 {
		want = 8 * time.Hour
	}
	if left > want || left < want-time.Minute || !call.Idempotent {
		tr.mixed = append(tr.mixed, fmt.Sprintf("%v for attempt %d, idempotent %v", left, call.Attempt, call.Idempotent))
	}
}

// traced calls see for calls with a trace.
func traced(see func(*trace, *tandem.Call)) tandem.Interceptor {
	return func(next tandem.Func) tandem.Func {
		return func(ctx context.Context, call *tandem.Call) error {
			if tr, ok := ctx.Value(traceKey{}).(*trace); ok {
				see(tr, call)
			}
			return next(ctx, call)
		}
	}
}

// While eight goroutines make calls, the policy is changed again and again: each call follows
// one policy alone, and none fails.
func TestPolicyChangesUnderCalls(t *testing.T) {
	mem, members, d := transport.NewMemory(), registry.NewMemory(), newDesk()
	for _, at := range []string{"a", "b"} {
		serveOn(t, mem, at, func(srv *server.Server) error {
			return errors.Join(
				server.Handle(srv, "Try.It", func(context.Context, *[]byte) (*[]byte, error) {
					return nil, tandem.Errorf(tandem.Unavailable, "as always")
				}),
				server.Handle(srv, "Good.Echo", echo))
		})
		list(t, members, at)
	}
	c := dial(t, "memory://x", client.WithTransport("mem", mem), client.WithResolver("memory", members), client.WithCodec(codec.Raw()),
		client.WithPolicyFrom(d, ""), client.WithEjection(nil),
		client.WithInterceptors(traced((*trace).begins)), client.WithAttemptInterceptors(traced((*trace).attempt)))
	d.put(policyA, nil)
	var wg sync.WaitGroup
	var stop atomic.Bool
	var byA, byB atomic.Int64
	for range 8 {
		wg.Go(func() {
			for !stop.Load() {
				tr := new(trace)
				err := c.Call(context.WithValue(t.Context(), traceKey{}, tr), "Try.It", new([]byte), nil)
				if tr.attempts != tr.retries+1 || len(tr.mixed) > 0 {
					t.Errorf("a call of %d attempts by a policy with %d retries, %v: %v", tr.attempts, tr.retries, tr.mixed, err)
					return
				}
				if tr.retries == 1 {
					byA.Add(1)
				} else {
					byB.Add(1)
				}
				if err := c.Call(t.Context(), "Good.Echo", new([]byte), nil); err != nil {
					t.Errorf("a good call: %v", err)
					return
				}
			}
		})
	}
	for i := range 200 {
		d.put([]string{policyB, policyA}[i%2], nil)
		time.Sleep(time.Millisecond) // for some calls
	}
	stop.Store(true)
	wg.Wait()
	if byA.Load() == 0 || byB.Load() == 0 {
		t.Errorf("%d calls by A, %d by B", byA.Load(), byB.Load())
	}
}

// A document that can't be read or is not valid changes nothing, and is logged and reported.
func TestPolicyRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logged := make(records, 1000)
		w := newWorkbench(t, unavailable, "a", client.WithLogger(slog.New(logged)))
		w.say(`{"version": "good", "default": {"failMode": "failtry", "retries": 1, "idempotent": true}}`)
		gone := errors.New("no document")
		for _, bad := range []document{
			{text: `{"default": {"retries": 5, "failMode": "hope"}}`},
			{text: `{"default": {"retries": 5}, "unheard": "of"}`},
			{err: gone},
			{err: gone},
		} {
			w.put(bad.text, bad.err)
			w.tried(2)
			a := w.c.Policy()
			if a.InForce != "good" || a.Error == "" || (a.Version == "") != (bad.err != nil) {
				t.Errorf("%s: %+v", bad.text, a)
			}
		}
		refused := 0
		for len(logged) > 0 {
			if rec := <-logged; strings.Contains(rec.Message, "policy not applied") {
				refused++
			}
		}
		if refused != 3 {
			t.Errorf("%d lines in the log, want 3: the same twice is logged once", refused)
		}
		w.say(`{"version": "better", "default": {"failMode": "failfast"}}`)
		w.tried(1)
	})
}

func TestPolicyIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorkbench(t, unavailable, "a")
		next := func(within time.Duration) policy.Applied {
			t.Helper()
			select {
			case a := <-w.reports:
				return a
			case <-time.After(within):
				t.Fatalf("no report within %v", within)
				return policy.Applied{}
			}
		}
		w.say(`{"version": "1"}`)
		a := next(time.Second)
		if a.Client != "bench" || a.Version != "1" || a.InForce != "1" || a.Error != "" || time.Since(a.At) > time.Second {
			t.Errorf("%+v", a)
		}
		if again := next(policy.ReportEvery + time.Second); again != a {
			t.Errorf("reported %+v first, then %+v", a, again)
		}
		w.put(`{"version": "2", "default": {"retries": -1}}`, nil)
		if a = next(time.Second); a.InForce != "1" || a.Version == "1" || !strings.Contains(a.Error, "default.retries") {
			t.Errorf("%+v", a)
		}
		w.failure = errors.New("the pen is empty")
		w.say(`{"version": "3"}`)
		if a = next(10 * time.Second); a.InForce != "3" { // tried again
			t.Errorf("%+v", a)
		}
	})
}

// Clients without names get one each.
func TestPolicyReportersHaveNames(t *testing.T) {
	var names []string
	for range 2 {
		d := newDesk()
		dial(t, "tcp://127.0.0.1:1", client.WithPolicyFrom(d, ""))
		d.put(`{}`, nil)
		names = append(names, (<-d.reports).Client)
	}
	if names[0] == names[1] || names[0] == "" {
		t.Errorf("names %q", names)
	}
}

// broken is a source that ends with an error.
type broken struct{}

func (broken) Watch(context.Context, func([]byte, error)) error { return errors.New("no such desk") }

func TestPolicySourceGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dial(t, "tcp://127.0.0.1:1", client.WithPolicyFrom(broken{}, ""), client.WithTransport("tcp", transport.NewMemory()))
		synctest.Wait()
		if a := c.Policy(); !strings.Contains(a.Error, "no such desk") || a.InForce != "" {
			t.Errorf("%+v", a)
		}
	})
}
