//go:build integration

package zookeeper

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
)

// watcher keeps what a watch has delivered.
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

// await waits until ok says that the newest snapshot is as it should be, and returns
// how long that took.
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
