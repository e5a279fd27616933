//go:build integration

package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
)

// watcher records what a watch delivers.
type watcher struct {
	mu      sync.Mutex
	last    registry.Snapshot
	lists   []int // how many instances each list had
	failed  int   // snapshots with Err
	changed chan struct{}
}

func watch(t testing.TB, r registry.Resolver, target registry.Target) *watcher {
	t.Helper()
	w := &watcher{changed: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.Watch(ctx, target, w.update)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return w
}

func (w *watcher) update(s registry.Snapshot) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last = s; s.Err == nil {
		w.lists = append(w.lists, len(s.Instances))
	} else {
		w.failed++
	}
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// await waits until ok accepts the newest snapshot, and returns how long that took.
func (w *watcher) await(t testing.TB, what string, within time.Duration, ok func(s registry.Snapshot) bool) time.Duration {
	t.Helper()
	began := time.Now()
	timeout := time.After(within)
	for {
		w.mu.Lock()
		last := w.last
		w.mu.Unlock()
		if ok(last) {
			return time.Since(began)
		}
		select {
		case <-w.changed:
		case <-timeout:
			t.Fatalf("%s: not after %v; the last: %d instances, revision %d, error %v",
				what, within, len(last.Instances), last.Revision, last.Err)
		}
	}
}

func (w *watcher) sees(t testing.TB, n int, within time.Duration) time.Duration {
	t.Helper()
	return w.await(t, fmt.Sprintf("%d instances", n), within, func(s registry.Snapshot) bool {
		return s.Err == nil && s.Revision > 0 && len(s.Instances) == n
	})
}

func (w *watcher) fails(t testing.TB, within time.Duration) {
	t.Helper()
	w.await(t, "an error", within, func(s registry.Snapshot) bool { return s.Err != nil })
}

// TestClosedWhileWatching closes a registry while one of its watches runs and keeps the
// session open: the instances and the reports are deleted all the same.
func TestClosedWhileWatching(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	where := target(s.address(), "?ttl=20s")
	r := open(t, where, logged(t))
	register(t, r, "i", 3)
	entry, err := r.Register(t.Context(), instance("early"))
	if err != nil {
		t.Fatal(err)
	}
	const key = "/shop/policies/Cart"
	for range 2 {
		if err := r.PutReport(t.Context(), key, "i0", []byte("{}"), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	own, other := watch(t, r, registry.Target{}), watch(t, Resolver(), mustParse(t, where))
	other.sees(t, 4, 15*time.Second)
	own.sees(t, 4, 15*time.Second)
	if err := entry.Close(); err != nil || len(r.open) != 4 { // three instances and a report
		t.Errorf("%d are open after one was closed: %v", len(r.open), err)
	}
	l, session := r.link, r.link.sessionID()
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	other.sees(t, 0, 5*time.Second)
	own.sees(t, 0, 5*time.Second)
	if l.unusable() != nil || l.sessionID() != session {
		t.Error("the session has ended: nothing was tested")
	}
	if reports, err := open(t, where).Reports(t.Context(), key); err != nil || len(reports) > 0 {
		t.Errorf("left are the reports %v: %v", reports, err)
	}
	if err := r.PutReport(t.Context(), key, "i0", []byte("{}"), time.Minute); !errors.Is(err, errClosed) {
		t.Errorf("a report after Close: %v", err)
	}
}

// instance returns a small instance.
func instance(id string) tandem.Instance {
	return tandem.Instance{
		ID: id, Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: "127.0.0.1:8972"}},
		Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Incarnation: "first",
	}
}

// register lists instances <prefix>0 to <prefix>n-1 until the test ends.
func register(t testing.TB, r *Registry, prefix string, n int) {
	t.Helper()
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	for i := range n {
		entry, err := r.Register(t.Context(), instance(fmt.Sprint(prefix, i)))
		for n := 0; err != nil && n < 5; n++ { // a new server on a busy machine is slow
			entry, err = r.Register(t.Context(), instance(fmt.Sprint(prefix, i)))
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { wg.Go(func() { entry.Close() }) })
	}
}
