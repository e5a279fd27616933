//go:build integration && unix

package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
)

// open returns the registry in a directory of the server, and closes it when the test ends.
func (s *server) open(dir string, opts ...Option) *Registry {
	s.t.Helper()
	r, err := New("etcd://"+s.client+dir, opts...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { r.Close() })
	return r
}

// register lists an instance; its registry's Close at the end of the test removes it.
func register(t testing.TB, r *Registry, in tandem.Instance) registry.Registration {
	t.Helper()
	entry, err := r.Register(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return entry
}

// eye watches a directory for a test.
type eye struct {
	t     testing.TB
	snaps chan registry.Snapshot
}

// look watches until the test ends.
func look(t testing.TB, r registry.Resolver, target registry.Target) *eye {
	e := &eye{t, make(chan registry.Snapshot, 10_000)}
	watch(t, r, target, func(s registry.Snapshot) { e.snaps <- s })
	return e
}

func watch(t testing.TB, r registry.Resolver, target registry.Target, update func(registry.Snapshot)) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := r.Watch(ctx, target, update); !errors.Is(err, context.Canceled) {
			t.Errorf("Watch returned %v", err)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

// sees waits for a list of exactly these IDs, and returns how long it took.
func (e *eye) sees(within time.Duration, ids ...string) time.Duration {
	e.t.Helper()
	what := fmt.Sprint("the list ", ids)
	if len(ids) > 10 {
		what = fmt.Sprintf("%d instances from %s to %s", len(ids), ids[0], ids[len(ids)-1])
	}
	return e.until(within, what, func(s registry.Snapshot) bool {
		return s.Err == nil && slices.Equal(names(s), ids)
	})
}

// fails waits for an error. It is a failure of the test if a list is delivered before.
func (e *eye) fails(within time.Duration) time.Duration {
	e.t.Helper()
	return e.until(within, "an error", func(s registry.Snapshot) bool {
		if s.Err == nil {
			e.t.Errorf("a list came in place of an error: %v", names(s))
		}
		return s.Err != nil
	})
}

func (e *eye) until(within time.Duration, what string, ok func(registry.Snapshot) bool) time.Duration {
	e.t.Helper()
	start := time.Now()
	timeout := time.After(within)
	var last registry.Snapshot
	for {
		select {
		case last = <-e.snaps:
			if ok(last) {
				return time.Since(start)
			}
		case <-timeout:
			e.t.Fatalf("waited %v for %s; the last snapshot: %d instances, %v", within, what, len(last.Instances), last.Err)
		}
	}
}

func names(s registry.Snapshot) []string {
	var ids []string
	for _, in := range s.Instances {
		ids = append(ids, in.ID)
	}
	slices.Sort(ids)
	return ids
}

// The server is killed, and restarted after some seconds with its data.
func TestKilledServer(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	r := s.open("/killed?ttl=5s")
	e := look(t, r, registry.Target{})
	register(t, r, instance("a"))
	register(t, r, instance("b"))
	e.sees(within, "a", "b")
	before := s.revisionOf("/killed/a")
	s.kill()
	t.Logf("the watch failed after %v", e.fails(2*time.Second))
	time.Sleep(6 * time.Second) // the outage, longer than the time to live
	for len(e.snaps) > 0 {
		if snap := <-e.snaps; snap.Err == nil {
			t.Errorf("in the outage there was a list: %v", names(snap))
		}
	}
	s.start()
	t.Logf("all were listed %v after the server was back", e.sees(10*time.Second, "a", "b"))
	register(t, r, instance("c"))
	e.sees(within, "a", "b", "c")
	time.Sleep(2 * time.Second) // a Check or two
	if after := s.revisionOf("/killed/a"); after != before {
		t.Errorf("a key that was still there was written again: revision %d, then %d", before, after)
	}
}

// fill registers n instances, up to 32 at the same time, and returns their IDs in order.
func fill(t testing.TB, r *Registry, n int) []string {
	t.Helper()
	ids := make([]string, n)
	var wg sync.WaitGroup
	turns := make(chan struct{}, 32)
	for i := range ids {
		ids[i] = fmt.Sprintf("server-%04d", i)
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			if _, err := r.Register(context.Background(), instance(ids[i])); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	return ids
}

// The server is restarted without its data: all instances are registered again.
func TestEmptiedServer(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	var log lines
	r := s.open("/emptied?ttl=3s", WithLogger(log.logger()))
	e := look(t, r, registry.Target{})
	ids := fill(t, r, 100)
	s.many(1000, func(ctx context.Context, c *clientv3.Client, _ int) error { // so that the revision is lower after the restart
		_, err := c.Put(ctx, "/something/else", "x")
		return err
	})
	s.put("/emptied/seen", "not an instance")
	e.sees(within, ids...)
	awaitLine(t, &log, "/emptied/seen")
	s.kill()
	e.fails(5 * time.Second)
	s.empty()
	s.start()
	t.Logf("%d were listed %v after the server was back", len(ids), e.sees(8*time.Second, ids...))
	awaitLine(t, &log, "revision went back")
}

// awaitLine waits until the log says something.
func awaitLine(t testing.TB, log *lines, what string) {
	t.Helper()
	for end := time.Now().Add(within); !strings.Contains(log.String(), what); {
		if time.Now().After(end) {
			t.Fatalf("the log does not say %q", what)
		}
		time.Sleep(10 * time.Millisecond) // a log can't be waited for
	}
}

// A key that is deleted, or whose lease is revoked, is restored before the next Check,
// which is five seconds away; Close leaves no key and no lease.
func TestLostEntriesAreRestoredAtOnce(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	r := s.open("/lost?ttl=15s")
	entry := register(t, r, instance("a"))
	for _, revoke := range []bool{false, true, true, false} {
		before := s.revisionOf("/lost/a")
		if err := s.lose("/lost/a", revoke); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		s.awaitKey("/lost/a", func(value string) bool { return value != "" })
		took := time.Since(start)
		t.Logf("revoked %v: listed again after %v", revoke, took)
		if took > 3*time.Second || s.revisionOf("/lost/a") == before {
			t.Errorf("revoked %v: restored after %v", revoke, took)
		}
	}
	if err := entry.Close(); err != nil {
		t.Error(err)
	}
	s.do(func(ctx context.Context, c *clientv3.Client) error {
		left, err := c.Leases(ctx)
		if err == nil && len(left.Leases) > 0 || s.revisionOf("/lost/a") != 0 {
			t.Errorf("after Close there are the leases %v, and the key of revision %d", left.Leases, s.revisionOf("/lost/a"))
		}
		return err
	})
}

// The lease is revoked before it was first kept alive, so the error of KeepAlive may
// come before the watch reports the deletion of the key.
func TestLeaseRevokedAtOnce(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	r := s.open("/atonce?ttl=15s")
	register(t, r, instance("a"))
	s.do(func(ctx context.Context, c *clientv3.Client) error {
		written := c.Watch(ctx, "/atonce/a", clientv3.WithFilterDelete(), clientv3.WithRev(1))
		for range 6 {
			start := time.Now()
			news := <-written
			if len(news.Events) == 0 {
				return fmt.Errorf("it is not listed again: %w", cmp.Or(news.Err(), ctx.Err()))
			}
			took := time.Since(start)
			t.Logf("listed again after %v", took)
			if took > 3*time.Second {
				t.Errorf("restored after %v", took)
			}
			if _, err := c.Revoke(ctx, clientv3.LeaseID(news.Events[0].Kv.Lease)); err != nil {
				return err
			}
		}
		return nil
	})
}

// A key that another client has overwritten is restored at the next Check. A key with a
// later incarnation is not overwritten.
func TestOverwrittenEntry(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	older, newer := instance("a"), instance("a")
	older.Started, older.Incarnation = time.Unix(1000, 0), "one"
	newer.Started, newer.Incarnation = time.Unix(2000, 0), "two"
	first, second := s.open("/over?ttl=2s"), s.open("/over?ttl=2s")
	entry := register(t, first, older)
	s.put("/over/a", "no instance")
	s.awaitKey("/over/a", func(value string) bool { return strings.Contains(value, `"one"`) })
	s.put("/over/a", "no instance, but under the same lease", clientv3.WithIgnoreLease())
	s.awaitKey("/over/a", func(value string) bool { return strings.Contains(value, `"one"`) })

	later := register(t, second, newer)
	if err := entry.Update(t.Context(), older); !errors.Is(err, registry.ErrSuperseded) {
		t.Errorf("the older one was updated: %v", err)
	}
	if _, err := first.Register(t.Context(), older); !errors.Is(err, registry.ErrSuperseded) {
		t.Errorf("the older one was registered again: %v", err)
	}
	before := s.revisionOf("/over/a")
	time.Sleep(3 * time.Second) // several Checks of both
	if after := s.revisionOf("/over/a"); after != before {
		t.Errorf("the key was written between revisions %d and %d", before, after)
	}
	later.Close()
	s.awaitKey("/over/a", func(value string) bool { return strings.Contains(value, `"one"`) })
	entry.Close()
	s.awaitKey("/over/a", func(value string) bool { return value == "" })
}

// put writes a key.
func (s *server) put(key, value string, opts ...clientv3.OpOption) {
	s.t.Helper()
	s.do(func(ctx context.Context, c *clientv3.Client) error {
		_, err := c.Put(ctx, key, value, opts...)
		return err
	})
}

func (s *server) revisionOf(key string) (revision int64) {
	s.t.Helper()
	s.do(func(ctx context.Context, c *clientv3.Client) error {
		resp, err := c.Get(ctx, key)
		if err == nil && len(resp.Kvs) > 0 {
			revision = resp.Kvs[0].ModRevision
		}
		return err
	})
	return revision
}

// awaitKey waits until ok is true for the key's value, which is "" for no key.
func (s *server) awaitKey(key string, ok func(value string) bool) {
	s.t.Helper()
	s.do(func(ctx context.Context, c *clientv3.Client) error {
		for {
			resp, err := c.Get(ctx, key)
			if err != nil {
				return fmt.Errorf("%s has not become what it should: %w", key, err)
			}
			value := ""
			if len(resp.Kvs) > 0 {
				value = string(resp.Kvs[0].Value)
			}
			if ok(value) {
				return nil
			}
			time.Sleep(20 * time.Millisecond) // etcd is another process
		}
	})
}
