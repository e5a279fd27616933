//go:build integration && unix

package etcd

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/adapter"
)

// Of good and bad entries in one directory only the good ones are delivered, and each
// bad one is logged once, with its key.
func TestHostileEntries(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	bad := map[string]string{
		"json":      `{"id":`,
		"weight":    `{"id":"weight","endpoints":[{"transport":"tcp","address":"h:1"}],"weight":1000000000}`,
		"duplicate": `{"id":"good","endpoints":[{"transport":"tcp","address":"h:1"}]}`,
		"endpoint":  `{"id":"endpoint","endpoints":[{"transport":"","address":"h:1"}]}`,
		"large":     `{"id":"large","endpoints":[{"transport":"tcp","address":"h:1"}],"zone":"` + strings.Repeat("x", 1<<20) + `"}`,
		"":          `{"id":"","endpoints":[{"transport":"tcp","address":"h:1"}]}`,
	}
	for key, value := range bad {
		s.put("/hostile/"+key, value)
	}
	s.put("/hostile/further/below", "another list's")
	s.put("/hostile", "a key beside the directory")
	s.put("/hostile2/x", "another directory's")
	var log lines
	r := s.open("/hostile?ttl=3s", WithLogger(log.logger()))
	register(t, r, instance("good"))
	e := look(t, r, registry.Target{})
	e.sees(within, "good")
	for range 2 { // now as changes
		for key, value := range bad {
			s.put("/hostile/"+key, value)
		}
	}
	register(t, r, instance("another"))
	e.sees(within, "another", "good")
	s.put("/hostile/another", "nothing good")
	s.awaitKey("/hostile/another", func(value string) bool { return strings.Contains(value, "endpoints") })
	register(t, r, instance("third"))
	e.sees(within, "another", "good", "third")
	for key := range bad {
		if n := strings.Count(log.String(), "key=/hostile/"+key+" reason"); n != 1 {
			t.Errorf("the bad entry %q is in %d lines of the log", key, n)
		}
	}
	if n := strings.Count(log.String(), "entry dropped"); n != len(bad)+1 {
		t.Errorf("%d bad entries made %d lines in the log:\n%.3000s", len(bad)+1, n, log.String())
	}
}

// Values that are too large together for one message are read in smaller pages.
func TestLargeValues(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	for i := range 40 {
		s.put(fmt.Sprintf("/large/%d", i), strings.Repeat("x", 1<<20))
	}
	r := s.open("/large")
	register(t, r, instance("good"))
	look(t, r, registry.Target{}).sees(within, "good")
}

// A list of several pages is read completely.
func TestLongList(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	r := s.open("/long")
	ids := fill(t, r, 2*pageSize+1)
	look(t, r, registry.Target{}).sees(within, ids...)
}

// A session fails when the changes it has to follow were compacted; the next session
// then reads the list again.
func TestCompaction(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	r := s.open("/compacted")
	c, release, err := r.conns.Acquire(r.own.servers)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	client, err := c.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		s.put("/compacted/a", "something")
	}
	s.do(func(ctx context.Context, c *clientv3.Client) error {
		_, err := c.Compact(ctx, s.revisionOf("/compacted/a"))
		return err
	})
	one := &session{conn: c, place: r.own}
	if err := one.follow(t.Context(), client, 2, new(adapter.Mirror)); err == nil || !strings.Contains(err.Error(), "compacted") {
		t.Errorf("following compacted changes: %v", err)
	}
}

// Watches of two thousand services share a connection, and each sees its change, also
// after an outage of the server.
func TestThousandsOfWatches(t *testing.T) {
	t.Parallel()
	const n = 2000
	s := startServer(t)
	relay := newRelay(t, s.client)
	r := Resolver()
	seen := [3]chan struct{}{} // by weight, 0 for an empty list: a token for each watch that has seen it
	for i := range seen {
		seen[i] = make(chan struct{}, n)
	}
	var away atomic.Bool
	for i := range n {
		target, err := registry.ParseTarget(fmt.Sprintf("etcd://%s/services/%d", relay.address, i))
		if err != nil {
			t.Fatal(err)
		}
		next := 0
		watch(t, r, target, func(snap registry.Snapshot) {
			switch {
			case snap.Err != nil && !away.Load():
				t.Error(snap.Err)
			case snap.Err == nil && next < len(seen) && weight(snap) == next:
				seen[next] <- struct{}{}
				next++
			}
		})
	}
	start := time.Now()
	receive(t, seen[0], n)
	t.Logf("%d lists after %v", n, time.Since(start))
	start = time.Now()
	s.change(n, 1)
	receive(t, seen[1], n)
	t.Logf("%d changes, and all were seen after %v", n, time.Since(start))
	if got := relay.accepted.Load(); got != 1 {
		t.Errorf("%d watches made %d connections", n, got)
	}
	away.Store(true)
	s.kill()
	s.start()
	start = time.Now()
	s.change(n, 2)
	receive(t, seen[2], n)
	t.Logf("%d changes after an outage, and all were seen after %v", n, time.Since(start))
}

// weight returns the weight of a list's first instance, 0 for an empty list.
func weight(snap registry.Snapshot) int {
	if len(snap.Instances) == 0 {
		return 0
	}
	return snap.Instances[0].Weight
}

// change lists an instance of this weight in every service.
func (s *server) change(services, weight int) {
	s.t.Helper()
	in := instance("a")
	in.Weight = weight
	value, err := adapter.Encode(in)
	if err != nil {
		s.t.Fatal(err)
	}
	s.many(services, func(ctx context.Context, c *clientv3.Client, i int) error {
		_, err := c.Put(ctx, fmt.Sprintf("/services/%d/a", i), string(value))
		return err
	})
}

func receive(t testing.TB, from <-chan struct{}, n int) {
	t.Helper()
	timeout := time.After(within)
	for i := range n {
		select {
		case <-from:
		case <-timeout:
			t.Fatalf("%d of %d came", i, n)
		}
	}
}

// A watch fails when the network drops everything, and recovers after that.
func TestBlackhole(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	relay := newRelay(t, s.client)
	r, err := New("etcd://" + relay.address + "/hole?ttl=15s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	register(t, r, instance("a"))
	e := look(t, r, registry.Target{})
	e.sees(within, "a")
	relay.swallow.Store(true)
	t.Logf("the watch failed after %v", e.fails(10*time.Second))
	relay.swallow.Store(false)
	relay.reset()
	t.Logf("the list was back after %v", e.sees(10*time.Second, "a"))
}

// relay forwards TCP connections, or drops their bytes while swallow is true.
type relay struct {
	address  string
	accepted atomic.Int64
	swallow  atomic.Bool

	mu    sync.Mutex
	conns []net.Conn
}

func newRelay(t testing.TB, to string) *relay {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{address: l.Addr().String()}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			r.accepted.Add(1)
			out, err := net.Dial("tcp", to)
			if err != nil {
				in.Close()
				continue
			}
			r.mu.Lock()
			r.conns = append(r.conns, in, out)
			r.mu.Unlock()
			wg.Go(func() { r.pass(in, out) })
			wg.Go(func() { r.pass(out, in) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		r.reset()
		wg.Wait()
	})
	return r
}

// reset ends all connections.
func (r *relay) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		c.Close()
	}
}

func (r *relay) pass(from, to net.Conn) {
	defer to.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && !r.swallow.Load() {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
