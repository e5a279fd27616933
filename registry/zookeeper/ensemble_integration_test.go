//go:build integration

package zookeeper

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/registrytest"
)

// ensemble is three servers that elect a leader.
type ensemble []*server

func startEnsemble(t testing.TB) ensemble {
	t.Helper()
	var e ensemble
	settings := []string{"initLimit=100", "syncLimit=20", "cnxTimeout=1"} // the limits in ticks of 100 ms
	for i := range 3 {
		s := &server{t: t, dir: t.TempDir(), port: registrytest.FreePort(t)}
		if err := os.MkdirAll(filepath.Join(s.dir, "data"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(s.dir, "data", "myid"), fmt.Append(nil, i+1), 0o600); err != nil {
			t.Fatal(err)
		}
		settings = append(settings, fmt.Sprintf("server.%d=127.0.0.1:%d:%d", i+1, registrytest.FreePort(t), registrytest.FreePort(t)))
		t.Cleanup(s.kill)
		e = append(e, s)
	}
	for _, s := range e {
		s.settings = settings
		s.launch()
	}
	for i, s := range e {
		if !s.await() {
			t.Fatalf("server %d of three does not serve:\n%s", i+1, s.log.String())
		}
	}
	return e
}

func (e ensemble) addresses() string {
	var list []string
	for _, s := range e {
		list = append(list, s.address())
	}
	return strings.Join(list, ",")
}

// leader returns the server that leads.
func (e ensemble) leader(t testing.TB) *server {
	t.Helper()
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) { // until the servers have elected one
		for _, s := range e {
			if strings.Contains(s.ask("srvr"), "Mode: leader") {
				return s
			}
		}
	}
	t.Fatal("the ensemble has no leader")
	return nil
}

// guest is the ID of the instance that comeAndGo registers and removes.
const guest = "guest"

// census counts what the watches of one directory deliver: lists and failures. least is
// the size of the shortest list, without guest.
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

// watch runs a watch and counts what it delivers, until the test ends.
func (c *census) watch(t testing.TB, r *Registry) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.Watch(ctx, registry.Target{}, c.update)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
}

// TestLeaderKilled kills the leader of three servers, twice, while three sessions list a
// hundred instances, fifty watches run, and an instance comes and goes. The sessions move
// to another server before they expire, and no list lacks a registered instance.
func TestLeaderKilled(t *testing.T) {
	t.Parallel()
	const sessions, each, watches, ttl = 3, 34, 50, 6 * time.Second
	e := startEnsemble(t)
	where := target(e.addresses(), "?ttl=6s")
	var r *Registry
	for i := range sessions { // each chooses a server at random
		r = open(t, where, logged(t))
		register(t, r, fmt.Sprint("session", i, "-"), each)
	}
	n := sessions * each
	w := watch(t, r, registry.Target{})
	w.sees(t, n, 15*time.Second)
	counted := new(census)
	counted.least.Store(int64(n))
	for range watches {
		counted.watch(t, r)
	}
	stop := comeAndGo(t, r)
	for round := range 2 {
		leader := e.leader(t)
		leader.kill()
		began := time.Now()
		e.leader(t)
		t.Logf("round %d: there is a leader %v after the kill", round, time.Since(began))
		registerOne(t, r, instance(fmt.Sprint("round", round)))
		n++
		t.Logf("round %d: registered %v after the kill", round, time.Since(began))
		time.Sleep(ttl + time.Second) // sessions would expire in that time
		leader.start()
	}
	t.Logf("%d came and went meanwhile", stop())
	t.Logf("all are listed after another %v", w.sees(t, n, ttl+5*time.Second))
	t.Logf("%d lists, %d failures, at least %d instances in each", counted.lists.Load(), counted.failures.Load(), counted.least.Load())
	if least := counted.least.Load(); least < sessions*each || counted.lists.Load() < watches {
		t.Errorf("%d lists, of which the shortest had %d instances, want %d", counted.lists.Load(), least, sessions*each)
	}
}

// comeAndGo registers an instance and closes it again until stop is called. stop returns
// how often both succeeded.
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
			time.Sleep(20 * time.Millisecond) // enough changes for the watches
		}
		went <- n
	}()
	stop = sync.OnceValue(func() int {
		cancel()
		return <-went
	})
	t.Cleanup(func() { stop() })
	return stop
}
