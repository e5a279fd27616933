package consul

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Parallel tests mostly wait for agents, so more of them run than there are processors.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

func instance(id string) tandem.Instance {
	return tandem.Instance{ID: id, Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: "127.0.0.1:8972"}}}
}

// open returns the registry of a target, and closes it when the test ends.
func open(t testing.TB, target string, opts ...Option) *Registry {
	t.Helper()
	r, err := New(target, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// list registers instances until the test ends.
func list(t testing.TB, r *Registry, ids ...string) (entries []registry.Registration) {
	t.Helper()
	for _, id := range ids {
		entry, err := r.Register(t.Context(), instance(id))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { entry.Close() })
		entries = append(entries, entry)
	}
	return entries
}

// eye watches for a test.
type eye struct {
	t     testing.TB
	snaps chan registry.Snapshot
	last  registry.Snapshot
}

// look watches a target, the registry's own if it is "", until the test ends.
func look(t testing.TB, r registry.Resolver, target string) *eye {
	t.Helper()
	var parsed registry.Target
	if target != "" {
		parsed = must(registry.ParseTarget(target))
	}
	e := &eye{t: t, snaps: make(chan registry.Snapshot, 1000)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := r.Watch(ctx, parsed, func(s registry.Snapshot) { e.snaps <- s }); !errors.Is(err, context.Canceled) {
			t.Errorf("Watch returned %v", err)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return e
}

// sees waits for a list of exactly these IDs, and returns how long it took.
func (e *eye) sees(ids ...string) time.Duration {
	e.t.Helper()
	return e.until(fmt.Sprintf("the list %q", ids), 20*time.Second, func(s registry.Snapshot) bool {
		return s.Err == nil && slices.Equal(names(s), ids)
	})
}

// fails waits for a failure.
func (e *eye) fails(within time.Duration) time.Duration {
	e.t.Helper()
	return e.until("a failure", within, func(s registry.Snapshot) bool { return s.Err != nil })
}

func (e *eye) until(what string, within time.Duration, ok func(registry.Snapshot) bool) time.Duration {
	e.t.Helper()
	start, timeout := time.Now(), time.After(within)
	for {
		select {
		case e.last = <-e.snaps:
			if ok(e.last) {
				return time.Since(start)
			}
		case <-timeout:
			e.t.Fatalf("waited %v in vain for %s; the last snapshot: %q, %v", within, what, names(e.last), e.last.Err)
		}
	}
}

// names returns the IDs of a list, in order.
func names(s registry.Snapshot) (ids []string) {
	for _, in := range s.Instances {
		ids = append(ids, in.ID)
	}
	return ids
}

// lines is a log that tests may read while it is written.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
