//go:build integration && unix

package etcd

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tandem-rpc/tandem/registry"
)

// cluster is an etcd cluster of three processes.
type cluster []*server

func startCluster(t testing.TB) cluster {
	t.Helper()
	var c cluster
	var members []string
	for i := range 3 {
		s := newServer(t, "http")
		name := fmt.Sprint("member", i)
		s.args[1] = name // after --name
		members = append(members, name+"="+s.peer)
		c = append(c, s)
	}
	for _, s := range c {
		s.args = append(s.args, "--initial-cluster", strings.Join(members, ",")) // overrides the one that newServer gave
	}
	var wg sync.WaitGroup
	errs := make(chan error, len(c))
	for _, s := range c {
		wg.Go(func() { errs <- s.launch() }) // in parallel, because a member answers only when two are running
	}
	wg.Wait()
	for range c {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// target names a directory of the cluster.
func (c cluster) target(dir string) string {
	var hosts []string
	for _, s := range c {
		hosts = append(hosts, s.client)
	}
	return "etcd://" + strings.Join(hosts, ",") + dir
}

// leader returns the member that says it is the leader.
func (c cluster) leader(t testing.TB) *server {
	t.Helper()
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(50 * time.Millisecond) { // other processes vote
		for _, s := range c {
			leads := false
			err := s.try(func(client *clientv3.Client) error {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				status, err := client.Status(ctx, s.client)
				leads = err == nil && status.Leader == status.Header.GetMemberId()
				return err
			})
			if err == nil && leads {
				return s
			}
		}
	}
	t.Fatal("the cluster has no leader")
	return nil
}

// census counts the deliveries to many watches of one directory: lists, failures, and
// the number of instances, without guest, in the shortest list.
type census struct{ lists, failures, least atomic.Int64 }

func (c *census) update(s registry.Snapshot) {
	if s.Err != nil {
		c.failures.Add(1)
		return
	}
	c.lists.Add(1)
	n := int64(0)
	for _, in := range s.Instances {
		if in.ID != guest {
			n++
		}
	}
	for {
		least := c.least.Load()
		if n >= least || c.least.CompareAndSwap(least, n) {
			return
		}
	}
}

// TestLeaderKilled kills the leader of three members, twice, while a hundred instances
// are listed, fifty watches run, and a guest is registered and removed repeatedly: the
// next leader keeps the leases alive, and no list lacks a registered instance.
func TestLeaderKilled(t *testing.T) {
	t.Parallel()
	const n, watches, ttl = 100, 50, 5 * time.Second
	c := startCluster(t)
	r, err := New(c.target("/led?ttl=5s"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	e := look(t, r, registry.Target{})
	ids := fill(t, r, n)
	e.sees(within, ids...)
	counted := new(census)
	counted.least.Store(n)
	for range watches {
		watch(t, r, registry.Target{}, counted.update)
	}
	stop := comeAndGo(t, r)
	for round := range 2 {
		leader := c.leader(t)
		leader.kill()
		began := time.Now()
		in := instance(fmt.Sprint("server-x", round)) // after the others, in order
		if _, err := r.Register(t.Context(), in); err != nil {
			t.Fatalf("registering without the leader: %v", err)
		}
		ids = append(ids, in.ID)
		t.Logf("round %d: registered %v after the kill", round, time.Since(began))
		time.Sleep(ttl + time.Second) // leases would expire in that time
		leader.start()
	}
	t.Logf("%d came and went meanwhile", stop())
	t.Logf("all are listed after another %v", e.sees(ttl+5*time.Second, ids...))
	t.Logf("%d lists, %d failures, at least %d instances in each", counted.lists.Load(), counted.failures.Load(), counted.least.Load())
	if least := counted.least.Load(); least < n || counted.lists.Load() < watches {
		t.Errorf("%d lists, of which the shortest had %d instances, want %d", counted.lists.Load(), least, n)
	}
}

// guest is the ID of the instance of comeAndGo.
const guest = "guest"

// comeAndGo registers and removes guest repeatedly until stop is called, which returns
// how often that succeeded.
func comeAndGo(t testing.TB, r *Registry) (stop func() int) {
	ctx, cancel := context.WithCancel(t.Context())
	went := make(chan int, 1)
	go func() {
		n := 0
		for ctx.Err() == nil {
			attempt, cancel := context.WithTimeout(ctx, 2*time.Second)
			entry, err := r.Register(attempt, instance(guest))
			cancel()
			if err == nil && entry.Close() == nil {
				n++
			}
			time.Sleep(20 * time.Millisecond) // its changes are load enough for the watches
		}
		went <- n
	}()
	stop = sync.OnceValue(func() int { cancel(); return <-went })
	t.Cleanup(func() { stop() })
	return stop
}
