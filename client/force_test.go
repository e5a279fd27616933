package client_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// force forces the breakers of the first n servers for that time.
func (w *ward) force(n int, open bool, d time.Duration) {
	w.t.Helper()
	for i := range n {
		if err := w.client.ForceBreaker(string(rune('a'+i)), open, time.Now().Add(d)); err != nil {
			w.t.Error(err)
		}
	}
}

// first is the state of the first instance.
func (w *ward) first() client.InstanceState { return w.client.Describe("").Attempts[0].Instances[0] }

func (w *ward) wantCalls(d time.Duration, toFirst, failures int64) {
	w.t.Helper()
	if n, failed := w.run(d); n != toFirst || failed != failures {
		w.t.Errorf("%d calls came to the first, and %d failed; want %d and %d", n, failed, toFirst, failures)
	}
}

// An instance whose breaker is forced open gets no call until then, and its share afterwards.
func TestForcedOpen(t *testing.T) {
	inWard(t, func(t *testing.T, w *ward) {
		until := time.Now().Add(20 * time.Second)
		w.force(1, true, 20*time.Second)
		in := w.first()
		if in.Breaker != "open" || time.Since(in.Since).Abs() > time.Second || in.Why != "" || !in.Forced.Equal(until) || !strings.Contains(in.Unusable, "forced open until "+until.Format(time.RFC3339)) {
			t.Errorf("%+v", in)
		}
		if text := w.client.Describe("Test.Do").String(); !strings.Contains(text, "breaker open (forced open until ") {
			t.Error(text)
		}
		w.wantCalls(time.Second, 0, 0)
		w.wantCalls(time.Second, 0, 0)
		time.Sleep(10 * time.Second)
		if in = w.first(); in.Breaker != "half-open" || !in.Forced.IsZero() || in.Unusable != "" {
			t.Errorf("afterwards: %+v", in)
		}
		w.run(time.Second)
		w.wantCalls(time.Second, 20, 0)
		if in = w.first(); in.Breaker != "closed" {
			t.Errorf("after some calls: %+v", in)
		}
	})
}

// More instances than may be ejected can be forced open, and all.
func TestManyAreForcedOpen(t *testing.T) {
	inWard(t, func(t *testing.T, w *ward) {
		w.force(9, true, time.Minute)
		w.wantCalls(time.Second, 0, 0)
		w.force(10, true, time.Minute)
		before := w.servers[0].calls.Load() + w.servers[9].calls.Load()
		err := w.client.Call(t.Context(), "Test.Do", &Args{}, new(Reply))
		if tandem.CodeOf(err) != tandem.Unavailable || tandem.MayHaveExecuted(err) || !strings.Contains(err.Error(), "breaker") {
			t.Errorf("all are forced open: %v", err)
		}
		err = w.client.Call(t.Context(), "Test.Do", &Args{}, new(Reply), client.Instance("j"))
		if tandem.CodeOf(err) != tandem.Unavailable || tandem.MayHaveExecuted(err) || !strings.Contains(err.Error(), "forced open until") {
			t.Errorf("a call that names its instance: %v", err)
		}
		if n := w.servers[0].calls.Load() + w.servers[9].calls.Load() - before; n != 0 {
			t.Errorf("%d calls were made", n)
		}
		time.Sleep(time.Minute)
		w.run(time.Second)
		w.wantCalls(time.Second, 20, 0)
	})
}

// An instance whose breaker is forced closed is not ejected before that time, and then it is.
func TestForcedClosed(t *testing.T) {
	inWard(t, func(t *testing.T, w *ward) {
		w.servers[0].fall(tandem.Errorf(tandem.Internal, "ill"))
		w.run(time.Second)
		if in := w.first(); in.Breaker == "closed" || in.Why == "" || in.Since.IsZero() {
			t.Fatalf("%+v", in)
		}
		w.force(1, false, 20*time.Second)
		if in := w.first(); in.Breaker != "closed" || in.Forced.IsZero() || in.Unusable != "" {
			t.Errorf("%+v", in)
		}
		w.wantCalls(5*time.Second, 100, 100)
		time.Sleep(10 * time.Second)
		if n, _ := w.run(time.Second); n == 20 {
			t.Error("it is not ejected afterwards")
		}
	})
}

// What was forced is ended by a time in the past, and replaced by another.
func TestForceIsEnded(t *testing.T) {
	inWard(t, func(t *testing.T, w *ward) {
		w.force(1, true, time.Hour)
		w.force(1, true, 0)
		if in := w.first(); in.Breaker != "closed" || !in.Forced.IsZero() {
			t.Errorf("%+v", in)
		}
		w.force(1, false, 0) // nothing is forced
		w.wantCalls(time.Second, 20, 0)
		w.force(1, true, time.Second)
		w.force(1, true, time.Minute)
		time.Sleep(2 * time.Second)
		w.wantCalls(time.Second, 0, 0)
		w.force(1, false, time.Minute)
		w.wantCalls(time.Second, 20, 0)
	}, client.WithEjection(nil))
}

// Without ejection, no call closes a breaker that was forced open: it closes at that time.
func TestForcedOpenWithoutEjection(t *testing.T) {
	inWard(t, func(t *testing.T, w *ward) {
		w.force(1, true, 5*time.Second)
		w.wantCalls(time.Second, 0, 0)
		w.wantCalls(time.Second, 20, 0)
	}, client.WithEjection(nil))
}

// What was forced holds for the only instance of a client, when it leaves the list and comes back,
// and until the client is closed.
func TestForcedInstanceComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, members := transport.NewMemory(), registry.NewMemory()
		serveOn(t, mem, "a", func(srv *server.Server) error { return server.Handle(srv, "Test.Echo", echo) })
		c := dial(t, "memory://force", client.WithTransport("mem", mem), client.WithResolver("memory", members))
		call := func() error { return c.Call(t.Context(), "Test.Echo", []byte("x"), nil) }
		if err := c.ForceBreaker("a", true, time.Now().Add(time.Minute)); tandem.CodeOf(err) != tandem.NotFound {
			t.Errorf("before the first list: %v", err)
		}
		listed := list(t, members, "a")
		synctest.Wait()
		if err := call(); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"", "b"} {
			if err := c.ForceBreaker(id, true, time.Now().Add(time.Minute)); tandem.CodeOf(err) != tandem.NotFound {
				t.Errorf("instance %q: %v", id, err)
			}
		}
		if err := c.ForceBreaker("a", true, time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if err := call(); tandem.CodeOf(err) != tandem.Unavailable {
			t.Errorf("forced open: %v", err)
		}
		if err := listed.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		list(t, members, "a")
		time.Sleep(10 * time.Second)
		if err := call(); tandem.CodeOf(err) != tandem.Unavailable || !strings.Contains(err.Error(), "breaker") {
			t.Errorf("it came back: %v", err)
		}
		time.Sleep(time.Minute)
		for range 3 {
			if err := call(); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		}
		if in := c.Describe("").Attempts[0].Instances[0]; in.Breaker != "closed" {
			t.Errorf("afterwards: %+v", in)
		}
		if err := c.ForceBreaker("a", true, time.Now().Add(time.Minute)); err != nil {
			t.Error(err)
		}
		_ = c.Close()
		if err := c.ForceBreaker("a", true, time.Now().Add(time.Hour)); tandem.CodeOf(err) != tandem.Unavailable {
			t.Errorf("after Close: %v", err)
		}
	})
}

// A new policy leaves what an operator has forced.
func TestForceOutlivesPolicies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		w := newWard(t, client.WithPolicyFrom(d, ""))
		w.force(1, true, time.Minute)
		for _, ejection := range []string{`{"off": true}`, `{"window": "5s"}`, `{"off": true}`} {
			d.put(fmt.Sprintf(`{"ejection": %s}`, ejection), nil)
			w.wantCalls(time.Second, 0, 0)
		}
	})
}
