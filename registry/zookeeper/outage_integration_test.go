//go:build integration

package zookeeper

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/adapter"
)

// TestServerKilled kills the server for longer than the sessions' timeout while a
// hundred instances are registered and a watch runs.
func TestServerKilled(t *testing.T) {
	t.Parallel()
	const ttl, n = 2 * time.Second, 100
	for _, c := range []struct {
		name string
		lost bool
	}{{"its data kept", false}, {"its data lost", true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t)
			r := open(t, target(s.address(), "?ttl=2s"), logged(t))
			register(t, r, "i", n)
			w := watch(t, r, registry.Target{})
			w.sees(t, n, 15*time.Second)
			before := len(w.lists)
			s.kill()
			w.fails(t, 15*time.Second)
			time.Sleep(ttl + ttl/2) // the outage lasts longer than the sessions
			if got := w.lists[before:]; len(got) > 0 {
				t.Errorf("in the outage there were lists of %d instances", got)
			}
			if c.lost {
				s.wipe()
			}
			s.start()
			took := w.sees(t, n, ttl+5*time.Second)
			t.Logf("all %d are listed %v after the server is back", n, took)
		})
	}
}

// TestServerHangs stops the server for longer than the session timeout: every session
// has expired when it continues.
func TestServerHangs(t *testing.T) {
	t.Parallel()
	const ttl, n = 2 * time.Second, 100
	s := startServer(t)
	r := open(t, target(s.address(), "?ttl=2s"), logged(t))
	register(t, r, "i", n)
	w := watch(t, r, registry.Target{})
	w.sees(t, n, 15*time.Second)
	session := r.link.sessionID()
	if err := s.freeze(); err != nil {
		t.Fatal(err)
	}
	w.fails(t, ttl+time.Second)
	time.Sleep(2 * ttl) // longer than the sessions
	if err := s.thaw(); err != nil {
		t.Fatal(err)
	}
	took := w.sees(t, n, ttl+5*time.Second)
	t.Logf("all %d are listed %v after the server goes on", n, took)
	if r.link.sessionID() == session {
		t.Error("the session is the same: nothing was tested")
	}
}

// TestSessionEnded ends the session through another connection: the watch and all
// instances move to the next session.
func TestSessionEnded(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	relay := startRelay(t, s.address())
	r := open(t, target(relay.address(), "?ttl=20s"), logged(t))
	register(t, r, "i", 10)
	w := watch(t, r, registry.Target{})
	w.sees(t, 10, 15*time.Second)
	session := r.link.sessionID()
	if err := relay.endSessions(); err != nil {
		t.Fatal(err)
	}
	w.fails(t, 15*time.Second)
	// Much sooner than the periodic check, which runs every third of the ttl.
	took := w.sees(t, 10, 4*time.Second)
	t.Logf("listed again after %v", took)
	if r.link.sessionID() == session {
		t.Error("the session is the same: nothing was tested")
	}
}

// TestConnectionLost closes only the connection: the session and its nodes stay, and
// watches miss no change that happens meanwhile.
func TestConnectionLost(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	relay := startRelay(t, s.address())
	r := open(t, target(relay.address(), "?ttl=20s"), logged(t))
	direct := open(t, "zookeeper://"+s.address()+r.target.Path)
	register(t, r, "i", 3)
	w := watch(t, r, registry.Target{})
	w.sees(t, 3, 15*time.Second)
	session := r.link.sessionID()
	for round := range 5 {
		before := len(w.lists)
		relay.cut()
		entry, err := r.Register(t.Context(), instance(fmt.Sprint("own", round)))
		if err != nil {
			t.Fatalf("registering while the connection is lost: %v", err)
		}
		t.Cleanup(func() { entry.Close() })
		register(t, direct, string(rune('a'+round)), 1)
		w.sees(t, 5+2*round, 15*time.Second)
		w.mu.Lock()
		if short := slices.Min(append(w.lists[before:], 3)); short < 3 {
			t.Errorf("a list of %d instances was delivered", short)
		}
		w.mu.Unlock()
	}
	if r.link.sessionID() != session {
		t.Error("the session was not kept")
	}
}

// TestClosedInOutage closes one of two registrations while the server hangs for less than
// the session timeout: the session survives, and the closed registration's node must go.
func TestClosedInOutage(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	relay := startRelay(t, s.address())
	r := open(t, target(relay.address(), "?ttl=10s"), logged(t))
	register(t, r, "stays", 1)
	entry, err := r.Register(t.Context(), instance("goes"))
	if err != nil {
		t.Fatal(err)
	}
	w := watch(t, Resolver(), mustParse(t, "zookeeper://"+s.address()+r.target.Path))
	w.sees(t, 2, 15*time.Second)
	session := r.link.sessionID()
	if err := s.freeze(); err != nil {
		t.Fatal(err)
	}
	relay.cut()
	if err := entry.Close(); err == nil {
		t.Error("it was closed without an error, although nobody could be told")
	}
	if err := s.thaw(); err != nil {
		t.Fatal(err)
	}
	w.sees(t, 1, 15*time.Second)
	if r.link.sessionID() != session {
		t.Error("the session was not kept: nothing was tested")
	}
}

// TestTakenOver registers a restarted server under the ID of its earlier incarnation, whose
// session has not expired yet.
func TestTakenOver(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	where := target(s.address(), "?ttl=20s")
	w := watch(t, Resolver(), mustParse(t, where))
	old := open(t, where)
	register(t, old, "i", 1)
	w.sees(t, 1, 15*time.Second)

	later := instance("i0")
	later.Started, later.Incarnation = later.Started.Add(time.Hour), "second"
	entry, err := open(t, where).Register(t.Context(), later)
	if err != nil {
		t.Fatal(err)
	}
	defer entry.Close()
	second := func(s registry.Snapshot) bool {
		return len(s.Instances) == 1 && s.Instances[0].Incarnation == "second"
	}
	w.await(t, "the second incarnation", 5*time.Second, second)
	// The first neither replaces the second's node, nor deletes it when it is closed.
	old.link.hint()
	if _, err := open(t, where).Register(t.Context(), instance("i0")); err == nil {
		t.Error("an earlier incarnation was registered")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	old.Close()
	if n, err := open(t, where).connectedGet(ctx, t, "i0"); err != nil || !second(registry.Snapshot{Instances: n}) {
		t.Errorf("got %+v and %v, want the second incarnation", n, err)
	}
	w.await(t, "the second incarnation", time.Second, second)
}

// TestTakenOverInOneProcess registers a later incarnation through the same session:
// closing the first leaves the second's node alone.
func TestTakenOverInOneProcess(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	r := open(t, target(s.address(), ""))
	first, err := r.Register(t.Context(), instance("a"))
	if err != nil {
		t.Fatal(err)
	}
	later := instance("a")
	later.Started, later.Incarnation = later.Started.Add(time.Hour), "second"
	second, err := r.Register(t.Context(), later)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	list, err := r.connectedGet(t.Context(), t, "a")
	if err != nil || list[0].Incarnation != "second" {
		t.Errorf("got %+v and %v, want the second incarnation", list, err)
	}
}

// connectedGet reads one instance of the registry's own directory.
func (r *Registry) connectedGet(ctx context.Context, t testing.TB, id string) ([]tandem.Instance, error) {
	p, err := r.place(r.target)
	if err != nil {
		t.Fatal(err)
	}
	l, err := r.connect(p)
	if err != nil {
		t.Fatal(err)
	}
	n, err := l.get(ctx, p.dir+"/"+escape(id))
	if err != nil {
		return nil, err
	}
	in, err := adapter.Decode(n.data)
	return []tandem.Instance{in}, err
}
