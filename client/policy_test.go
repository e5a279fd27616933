package client_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// desk is a policy.Source with documents from a test; it keeps reports.
type desk struct {
	documents chan document
	reports   chan policy.Applied
	failure   error // of the next report
}

type document struct {
	text  string
	err   error
	taken chan struct{}
}

func newDesk() *desk {
	return &desk{documents: make(chan document), reports: make(chan policy.Applied, 100)}
}

func (d *desk) Watch(ctx context.Context, update func(text []byte, err error)) error {
	for {
		select {
		case doc := <-d.documents:
			update([]byte(doc.text), doc.err)
			close(doc.taken)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (d *desk) Report(_ context.Context, a policy.Applied) error {
	err := d.failure
	if d.failure = nil; err != nil {
		return err
	}
	d.reports <- a
	return nil
}

// put passes a document to the client, and returns when the client has handled it.
func (d *desk) put(text string, err error) {
	doc := document{text, err, make(chan struct{})}
	d.documents <- doc
	<-doc.taken
}

// workbench is a client of servers in memory, whose policy a test changes. Its method Try.It
// does at each server what the test sets.
type workbench struct {
	*desk

	t        *testing.T
	c        *client.Client
	mu       sync.Mutex
	attempts map[string]int // at each server, of the last call
}

func newWorkbench(t *testing.T, it func(ctx context.Context, at string, attempt int) error, servers string, opts ...client.Option) *workbench {
	t.Helper()
	w := &workbench{desk: newDesk(), t: t, attempts: map[string]int{}}
	mem, members := transport.NewMemory(), registry.NewMemory()
	for at := range strings.FieldsSeq(servers) {
		serveOn(t, mem, at, func(srv *server.Server) error {
			return server.Handle(srv, "Try.It", func(ctx context.Context, in *[]byte) (*[]byte, error) {
				w.mu.Lock()
				w.attempts[at]++
				w.mu.Unlock()
				return in, it(ctx, at, tandem.FromContext(ctx).Attempt)
			})
		})
		list(t, members, at)
	}
	w.c = dial(t, "memory://x", append([]client.Option{
		client.WithTransport("mem", mem), client.WithResolver("memory", members), client.WithCodec(codec.Raw()),
		client.WithPolicyFrom(w.desk, "bench"), client.WithAttempts(client.Attempts{Budget: &policy.Budget{Share: 1, PerSecond: 1_000_000}}),
	}, opts...)...)
	synctest.Wait()
	return w
}

// say puts the policy, which must be valid.
func (w *workbench) say(text string) {
	w.t.Helper()
	w.put(text, nil)
	if a := w.c.Policy(); a.Error != "" || a.InForce != policy.VersionOf([]byte(text)) {
		w.t.Fatalf("%s: %+v", text, a)
	}
}

// try makes a call and returns how many attempts it took, how long, and its error.
func (w *workbench) try(opts ...tandem.CallOption) (attempts int, took time.Duration, err error) {
	clear(w.attempts)
	began := time.Now()
	err = w.c.Call(w.t.Context(), "Try.It", new([]byte), nil, opts...)
	took = time.Since(began)
	synctest.Wait() // for attempts that the call has not waited for
	for _, n := range w.attempts {
		attempts += n
	}
	return attempts, took, err
}

// tried fails the test unless the last call made that many attempts.
func (w *workbench) tried(want int, opts ...tandem.CallOption) {
	w.t.Helper()
	if n, _, err := w.try(opts...); n != want {
		w.t.Errorf("%d attempts, want %d; the last failed with %v", n, want, err)
	}
}

func unavailable(context.Context, string, int) error {
	return tandem.Errorf(tandem.Unavailable, "not now")
}

func hang(ctx context.Context, _ string, _ int) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestPolicyTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorkbench(t, hang, "a", client.WithTimeout(3*time.Second))
		took := func(want time.Duration, opts ...tandem.CallOption) {
			t.Helper()
			if _, d, err := w.try(opts...); d.Round(20*time.Millisecond) != want || tandem.CodeOf(err) != tandem.DeadlineExceeded {
				t.Errorf("took %v, want %v: %v", d, want, err)
			}
		}
		took(3 * time.Second)
		w.say(`{"default": {"timeout": "2s"}, "methods": {"Other.*": {"timeout": "9s"}}}`)
		took(2 * time.Second)
		w.say(`{"default": {"timeout": "2s"}, "methods": {"Try.*": {"timeout": "500ms"}}}`)
		took(500 * time.Millisecond)
		w.say(`{"methods": {"Try.It": {"timeout": "200ms"}, "Try.*": {"timeout": "500ms"}}}`)
		took(200 * time.Millisecond)
		took(time.Second, client.Timeout(time.Second))
		w.say(`{}`)
		took(3 * time.Second)
	})
}

func TestPolicyAttemptTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorkbench(t, func(ctx context.Context, at string, attempt int) error {
			if attempt == 0 {
				return hang(ctx, at, attempt)
			}
			return nil
		}, "a", client.WithFailMode(client.Failtry))
		if n, _, err := w.try(client.Idempotent()); n != 1 || err == nil {
			t.Errorf("without it: %d attempts, %v", n, err)
		}
		w.say(`{"methods": {"Try.It": {"attemptTimeout": "100ms"}}}`)
		if n, took, err := w.try(client.Idempotent()); n != 2 || err != nil || took > time.Second {
			t.Errorf("with it: %d attempts, %v, %v", n, took, err)
		}
		if n, _, err := w.try(client.Idempotent(), client.AttemptTimeout(-1)); n != 1 || err == nil {
			t.Errorf("against it: %d attempts, %v", n, err)
		}
	})
}

func TestPolicyRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorkbench(t, unavailable, "a")
		w.tried(1, client.Idempotent())
		w.say(`{"default": {"failMode": "failtry", "retries": 3}}`)
		w.tried(1)
		w.tried(4, client.Idempotent())
		w.tried(1, client.Idempotent(), client.FailMode(client.Failfast))
		w.say(`{"default": {"failMode": "failtry", "retries": 3, "idempotent": true}, "methods": {"Try.*": {"retries": 1}}}`)
		w.tried(2)
		w.say(`{"default": {"failMode": "failtry", "retries": 3, "idempotent": true}, "methods": {"Try.It": {"retries": 0, "idempotent": false}}}`)
		w.tried(1)
		w.say(`{"default": {"failMode": "failsafe"}}`)
		if _, _, err := w.try(); err != nil {
			t.Errorf("failsafe: %v", err)
		}
		w.say(`{}`)
		w.tried(1, client.Idempotent())
	})
}

func TestPolicyBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorkbench(t, unavailable, "a", client.WithFailMode(client.Failtry))
		w.tried(3, client.Idempotent())
		w.say(`{"retryBudget": {"share": 0, "perSecond": 0}}`)
		if n, _, err := w.try(client.Idempotent()); n != 1 || !strings.Contains(err.Error(), "budget is spent") {
			t.Errorf("without a budget: %d attempts, %v", n, err)
		}
		w.say(`{}`)
		time.Sleep(time.Second)
		w.tried(3, client.Idempotent())
	})
}

func TestPolicyBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorkbench(t, unavailable, "a", client.WithEjection(nil))
		for range 10 {
			w.tried(1)
		}
		w.say(`{"methods": {"Try.*": {"breaker": {"consecutive": 2, "pause": "1h", "maxPause": "2h"}}}}`)
		w.tried(1)
		w.tried(1)
		w.tried(0)
		w.say(`{"methods": {"Try.*": {"breaker": {"consecutive": 3, "pause": "1h"}}}}`)
		w.tried(0) // it stays open
		w.say(`{"methods": {"Try.*": {"breaker": {"off": true}}}}`)
		for range 10 {
			w.tried(1)
		}
		w.say(`{"methods": {"Try.*": {"breaker": {"consecutive": 3, "pause": "1h"}}}}`)
		for range 3 {
			w.tried(1)
		}
		w.tried(0)
		time.Sleep(61 * time.Minute)
		w.tried(1) // the pause is over
		w.tried(0)
		w.say(`{"default": {"breaker": {"consecutive": -1, "minCalls": 8, "failureRate": 0.9}}}`)
		w.say(`{"default": {"breaker": {"off": true}}}`)
		w.say(`{"default": {"breaker": {"consecutive": -1, "minCalls": 8, "failureRate": 0.9}}}`)
		for range 8 {
			w.tried(1)
		}
		w.tried(0)
	})
}

// The settings of an existing breaker are changed, too.
func TestPolicyReconfiguresBreakers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorkbench(t, unavailable, "a", client.WithEjection(nil))
		w.say(`{"default": {"breaker": {"consecutive": 100, "minCalls": 1000}}}`)
		for range 5 {
			w.tried(1)
		}
		w.say(`{"default": {"breaker": {"consecutive": 6, "minCalls": 1000}}}`)
		w.tried(1)
		w.tried(0)
	})
}

func TestPolicyEjection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorkbench(t, func(ctx context.Context, at string, attempt int) error {
			if at == "bad" {
				return unavailable(ctx, at, attempt)
			}
			return nil
		}, "bad c d", client.WithEjection(nil), client.WithBalancer(inOrder{}))
		atBad := func() (n int) {
			for range 30 {
				_, _, err := w.try()
				n += w.attempts["bad"]
				if (err != nil) != (w.attempts["bad"] > 0) {
					t.Errorf("attempts %v: %v", w.attempts, err)
				}
			}
			return n
		}
		if n := atBad(); n != 30 {
			t.Errorf("%d of 30 without ejection", n)
		}
		w.say(`{"ejection": {"consecutive": 4, "pause": "1h", "maxPause": "1h"}}`)
		if n := atBad(); n != 4 {
			t.Errorf("%d of 30 with ejection", n)
		}
		w.say(`{"ejection": {"off": true}}`)
		for _, in := range w.c.Describe("Try.It").Attempts[0].Instances {
			if in.Breaker != "closed" {
				t.Errorf("without ejection the breaker of %s is %s", in.ID, in.Breaker)
			}
		}
		if n := atBad(); n != 30 {
			t.Errorf("%d of 30 without it again", n)
		}
		w.say(`{"ejection": {"consecutive": 4, "maxShare": 0.1}}`)
		if n := atBad(); n != 30 {
			t.Errorf("%d of 30 where one of three is too many to leave out", n)
		}
	})
}

// inOrder picks the first usable node.
type inOrder []*balance.Node

func (inOrder) Name() string                               { return "in_order" }
func (inOrder) Needs() balance.Needs                       { return balance.Needs{} }
func (inOrder) Build(nodes []*balance.Node) balance.Picker { return inOrder(nodes) }

func (o inOrder) Pick(_ *tandem.Call, usable func(*balance.Node) bool) *balance.Node {
	for _, n := range o {
		if usable(n) {
			return n
		}
	}
	return nil
}

func TestPolicyBalancer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ok := func(context.Context, string, int) error { return nil }
		w := newWorkbench(t, ok, "a b c d", client.WithEjection(nil))
		spread := func(opts ...tandem.CallOption) int {
			seen := map[string]bool{}
			for range 80 { // one of four is missed with a probability of 4e-10
				if _, _, err := w.try(opts...); err != nil {
					t.Fatal(err)
				}
				for at := range w.attempts {
					seen[at] = true
				}
			}
			return len(seen)
		}
		for _, step := range []struct {
			policy, name string
			spread       int
		}{
			{`{"balancer": {"pick": "maglev"}}`, "route(maglev)", 1},
			{`{"balancer": {"pick": "round-robin"}}`, "route(roundrobin)", 4},
			{`{"balancer": {"pick": "random", "sticky": true, "slowStart": "1s", "zone": "z"}}`, "route(sticky(zone(slow_start(random))))", 1},
			{`{"balancer": {"pick": "ring-hash"}}`, "route(ring_hash)", 1},
			{`{}`, "route(p2c)", 4},
		} {
			w.say(step.policy)
			if n := spread(client.HashKey("k")); n != step.spread {
				t.Errorf("%s: calls with one key go to %d instances, want %d", step.policy, n, step.spread)
			}
			if e := w.c.Describe("Try.It"); e.Policy != step.name || e.Version != policy.VersionOf([]byte(step.policy)) {
				t.Errorf("%s: described as %s, version %s", step.policy, e.Policy, e.Version)
			}
		}
		calls := uint64(0)
		for _, in := range w.c.Describe("Try.It").Attempts[0].Instances {
			calls += in.Calls
		}
		if calls != 5*80 {
			t.Errorf("the statistics know %d calls of 400", calls)
		}
	})
}

// Every name that a policy may use has an effect.
func TestPolicyNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorkbench(t, func(context.Context, string, int) error { return nil }, "a b")
		seen := map[string]bool{}
		for _, pick := range policy.Picks() {
			w.say(fmt.Sprintf(`{"balancer": {"pick": %q}}`, pick))
			seen[w.c.Describe("Try.It").Policy] = true
		}
		if len(seen) != len(policy.Picks()) {
			t.Errorf("%d names mean %d things: %v", len(policy.Picks()), len(seen), seen)
		}
		for _, mode := range policy.FailModes() {
			w.say(fmt.Sprintf(`{"default": {"failMode": %q}}`, mode))
			if _, _, err := w.try(); err != nil {
				t.Errorf("%s: %v", mode, err)
			}
		}
	})
}

func TestPolicyInCode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &policy.Policy{Version: "1", Default: policy.Method{FailMode: "failtry", Idempotent: new(true)}}
		w := newWorkbench(t, unavailable, "a", client.WithPolicy(p))
		p.Default.FailMode = "failfast" // too late to have an effect
		w.tried(3)
		if a := w.c.Policy(); a.InForce != "1" || a.Version != "1" {
			t.Errorf("%+v", a)
		}
		w.say(`{"version": "2"}`)
		w.tried(1)
	})
	if c, err := client.Dial("tcp://a:1", client.WithPolicy(&policy.Policy{Default: policy.Method{FailMode: "hope"}})); err == nil {
		c.Close()
		t.Error("a policy that can't be right was taken")
	}
}
