package registrytest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
)

// watcher watches the list in a goroutine and checks the rules for every snapshot.
// Its steps do nothing once the session has failed.
type watcher struct {
	s      *session
	cancel context.CancelFunc
	ended  chan error
	news   chan struct{} // holds a token when a snapshot has arrived since the last receive
	busy   atomic.Bool   // update is running
	failed atomic.Bool   // there was a snapshot with Err

	mu      sync.Mutex
	history []registry.Snapshot
	broken  error // the first snapshot that breaks a rule
}

// watch starts a watcher.
func (s *session) watch() *watcher {
	ctx, cancel := context.WithCancel(s.ctx)
	w := &watcher{s: s, cancel: cancel, ended: make(chan error, 1), news: make(chan struct{}, 1)}
	s.watchers = append(s.watchers, w)
	go func() { w.ended <- s.h.Resolver.Watch(ctx, s.h.Target, w.update) }()
	return w
}

// update is the function that the resolver calls.
func (w *watcher) update(snap registry.Snapshot) {
	alone := w.busy.CompareAndSwap(false, true)
	defer w.busy.Store(false)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !alone {
		w.breakf("update was called while it was running")
	}
	if n := len(w.history); n > 0 {
		w.inspect(w.history[n-1], snap)
	}
	if snap.Err != nil {
		w.failed.Store(true)
	}
	if snap.Err != nil && len(snap.Instances) > 0 {
		w.breakf("a snapshot has both an error (%w) and instances", snap.Err)
	}
	w.history = append(w.history, snap)
	select {
	case w.news <- struct{}{}:
	default:
	}
}

// inspect compares a snapshot with the one before it.
func (w *watcher) inspect(old, snap registry.Snapshot) {
	if snap.Revision < old.Revision {
		w.breakf("the revision went back from %d to %d", old.Revision, snap.Revision)
	}
	if snap.Err == nil && old.Err == nil && snap.Revision == old.Revision && names(snap) != names(old) {
		w.breakf("the list changed from %.200s to %.200s, its revision stayed %d", names(old), names(snap), snap.Revision)
	}
}

func (w *watcher) breakf(format string, args ...any) {
	if w.broken == nil {
		w.broken = fmt.Errorf(format, args...)
	}
}

// last returns the newest snapshot, whether there is one, and the first broken rule.
func (w *watcher) last() (snap registry.Snapshot, some bool, broken error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.history); n > 0 {
		return w.history[n-1], true, w.broken
	}
	return registry.Snapshot{}, false, w.broken
}

// await waits until the newest snapshot satisfies ok.
func (w *watcher) await(what string, ok func(registry.Snapshot) bool) {
	timeout := time.NewTimer(w.s.h.within())
	defer timeout.Stop()
	for w.s.err == nil {
		snap, some, broken := w.last()
		if broken != nil {
			w.s.failf("%w", broken)
			return
		}
		if some && ok(snap) {
			return
		}
		select {
		case <-w.news:
		case err := <-w.ended:
			w.ended <- err
			w.s.failf("Watch returned early: %w", err)
		case <-timeout.C:
			w.s.failf("no snapshot with %s after %v; the last one: %s", what, w.s.h.within(), describe(snap, some))
		}
	}
}

// sees waits for a list of exactly these IDs.
func (w *watcher) sees(ids ...string) {
	want := quoted(ids)
	w.await("the list "+want, func(snap registry.Snapshot) bool {
		return snap.Err == nil && names(snap) == want
	})
}

// shows waits for a list in which the instance is exactly this.
func (w *watcher) shows(in tandem.Instance) {
	w.await(fmt.Sprintf("%+v", in), func(snap registry.Snapshot) bool {
		return slices.ContainsFunc(snap.Instances, func(got tandem.Instance) bool { return same(got, in) })
	})
}

// fails waits until there has been a snapshot with Err.
func (w *watcher) fails() {
	w.await("an error", func(registry.Snapshot) bool { return w.failed.Load() })
}

// lists returns the history without the failures.
func (w *watcher) lists() []registry.Snapshot {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.history), func(snap registry.Snapshot) bool { return snap.Err != nil })
}

// stop cancels the watch, checks that it returns its context's error, and reports a
// broken rule.
func (w *watcher) stop() {
	w.cancel()
	select {
	case err := <-w.ended:
		w.ended <- err // for a second stop
		if !errors.Is(err, context.Canceled) {
			w.s.failf("Watch returned %v when its context was cancelled", err)
		}
	case <-returnTimeout(w.s.h):
		w.s.failf("Watch does not return when its context is cancelled")
	}
	if _, _, broken := w.last(); broken != nil {
		w.s.failf("%w", broken)
	}
}

// returnTimeout returns a channel that receives after Within: a call that has not returned
// by then fails.
func returnTimeout(h Harness) <-chan time.Time { return time.After(h.within()) }

// names returns the IDs of a list, sorted.
func names(snap registry.Snapshot) string {
	ids := make([]string, len(snap.Instances))
	for i, in := range snap.Instances {
		ids[i] = in.ID
	}
	return quoted(ids)
}

func quoted(ids []string) string { return fmt.Sprintf("%q", slices.Sorted(slices.Values(ids))) }

// describe returns a short text for a snapshot, or for none.
func describe(snap registry.Snapshot, some bool) string {
	switch {
	case !some:
		return "none came"
	case snap.Err != nil:
		return "error " + snap.Err.Error()
	}
	return fmt.Sprintf("%d instances %.200s, revision %d", len(snap.Instances), names(snap), snap.Revision)
}
