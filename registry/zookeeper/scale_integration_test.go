//go:build integration

package zookeeper

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/adapter"
)

// put creates persistent nodes, many in one transaction.
func put(t testing.TB, conn *zk.Conn, nodes map[string]string) {
	t.Helper()
	var ops []any
	flush := func() {
		if _, err := conn.Multi(ops...); err != nil {
			t.Fatal(err)
		}
		ops = nil
	}
	size := 0
	for at, data := range nodes {
		ops = append(ops, &zk.CreateRequest{Path: at, Data: []byte(data), Acl: zk.WorldACL(zk.PermAll)})
		if size += len(at) + len(data); size > 100_000 {
			flush()
			size = 0
		}
	}
	flush()
}

// putDir creates a directory and its parents.
func putDir(t testing.TB, conn *zk.Conn, dir string) {
	t.Helper()
	if dir == "/" {
		return
	}
	putDir(t, conn, path.Dir(dir))
	if _, err := conn.Create(dir, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll)); err != nil && !errors.Is(err, zk.ErrNodeExists) {
		t.Fatal(err)
	}
}

func encoded(t testing.TB, in tandem.Instance) string {
	t.Helper()
	data, err := adapter.Encode(in)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

var connections = regexp.MustCompile(`Connections: (\d+)`)

// TestManyServices runs 100 registrations and the watches of 2,000 services on one
// session, and changes each service.
func TestManyServices(t *testing.T) {
	t.Parallel()
	const services = 2000
	s := startServer(t)
	other := s.connect(t)
	dirs := map[string]string{}
	for i := range services {
		dirs[fmt.Sprint("/services/s", i)] = ""
	}
	putDir(t, other, "/services")
	put(t, other, dirs)

	r := open(t, target(s.address(), "?ttl=10s"), logged(t))
	register(t, r, "i", 100)
	began := time.Now()
	var watchers []*watcher
	for dir := range dirs {
		watchers = append(watchers, watch(t, r, mustParse(t, "zookeeper://"+s.address()+dir+"?ttl=10s")))
	}
	for _, w := range watchers {
		w.sees(t, 0, 20*time.Second)
	}
	t.Logf("%d watches have their first lists after %v", services, time.Since(began))
	if m := connections.FindStringSubmatch(s.ask("srvr")); m == nil || m[1] != "3" {
		t.Errorf("%q: want 3 connections: the registry's, the test's, and the one that asked", m)
	}

	began = time.Now()
	nodes := map[string]string{}
	for dir := range dirs {
		nodes[dir+"/a"] = encoded(t, instance("a"))
	}
	put(t, other, nodes)
	for _, w := range watchers {
		w.sees(t, 1, 20*time.Second)
	}
	t.Logf("%d changes are seen after %v", services, time.Since(began))
	own := watch(t, r, registry.Target{})
	own.sees(t, 100, 15*time.Second)
}

var received = regexp.MustCompile(`Received: (\d+)`)

// requests returns how many requests the server has received.
func (s *server) requests() int {
	n := 0
	if m := received.FindStringSubmatch(s.ask("srvr")); m != nil {
		n, _ = strconv.Atoi(m[1])
	}
	return n
}

// TestLongList reads a list of 5,000 nodes: a change then needs few requests, and reading
// the list again transfers no data.
func TestLongList(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	other := s.connect(t)
	r := open(t, target(s.address(), ""), logged(t))
	dir := r.target.Path
	nodes := map[string]string{}
	for i := range 5000 {
		id := fmt.Sprint("i", i)
		nodes[dir+"/"+id] = encoded(t, instance(id))
	}
	putDir(t, other, dir)
	put(t, other, nodes)
	w := watch(t, r, registry.Target{})
	t.Logf("%d instances are read in %v", len(nodes), w.sees(t, len(nodes), 20*time.Second))

	before := s.requests()
	changed := instance("i7")
	changed.Weight = 7
	if _, err := other.Set(dir+"/i7", []byte(encoded(t, changed)), -1); err != nil {
		t.Fatal(err)
	}
	weight := func(s registry.Snapshot) bool {
		for _, in := range s.Instances {
			if in.Weight == 7 {
				return true
			}
		}
		return false
	}
	w.await(t, "the change", 5*time.Second, weight)
	if n := s.requests() - before; n > 50 {
		t.Errorf("one change made %d requests", n)
	}
	readsAgain(t, r, len(nodes))
}

// readsAgain reads the registry's list twice. The second time must not read a node that
// has not changed.
func readsAgain(t *testing.T, r *Registry, n int) {
	t.Helper()
	p, err := r.place(r.target)
	if err != nil {
		t.Fatal(err)
	}
	l, release, err := r.links.Acquire(p.link)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	w, m := newLister(l, p), new(adapter.Mirror)
	for round := range 2 {
		before, began := maps.Clone(w.known), time.Now()
		if err := w.readAll(t.Context(), m); err != nil || len(w.known) != n {
			t.Fatalf("read %d nodes: %v", len(w.known), err)
		}
		t.Logf("round %d takes %v", round+1, time.Since(began))
		for name, it := range w.known {
			if round > 0 && before[name] != it {
				t.Fatalf("%s was read again", name)
			}
		}
	}
}

// hostile returns nodes that are no valid instances: data by name. The name says what is
// wrong.
func hostile(t testing.TB) map[string]string {
	good := encoded(t, instance("good"))
	return map[string]string{
		"bad-json":  "{",
		"empty":     "",
		"heavy":     strings.Replace(encoded(t, instance("heavy")), `"id"`, `"weight":2000000000,"id"`, 1),
		"duplicate": good,
		"nowhere":   `{"id":"nowhere","endpoints":[{"transport":"","address":"x"}]}`,
		"large":     `{"id":"large","zone":"` + strings.Repeat("z", 1_000_000) + `"}`,
		"alone":     `{"id":"alone"}`,
		"größe":     good,
		"other":     "\xff\xfe\x00\x01",
	}
}

// TestHostileNodes puts nodes of all kinds beside a good one, before a watch begins
// and while it runs.
func TestHostileNodes(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	other := s.connect(t)
	var log lockedBuffer
	r := open(t, target(s.address(), "?ttl=2s"), WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	dir := r.target.Path
	register(t, r, "good", 1)
	nodes := map[string]string{}
	for key, data := range hostile(t) {
		nodes[dir+"/"+key] = data
	}
	put(t, other, nodes)
	w := watch(t, r, registry.Target{})
	w.sees(t, 1, 15*time.Second)
	register(t, r, "better", 1)
	w.sees(t, 2, 15*time.Second)

	// A valid node becomes invalid: it leaves the list, and the others stay.
	if _, err := other.Create(dir+"/turns", []byte(encoded(t, instance("turns"))), 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	w.sees(t, 3, 15*time.Second)
	if _, err := other.Set(dir+"/turns", []byte("bad"), -1); err != nil {
		t.Fatal(err)
	}
	w.sees(t, 2, 15*time.Second)
	register(t, r, "best", 1)
	w.sees(t, 3, 15*time.Second)

	for key := range hostile(t) {
		line := []byte("key=" + key + " ")
		if n := bytes.Count([]byte(log.String()), line); n != 1 {
			t.Errorf("%d lines in the log name %s", n, key)
		}
	}
	if n := strings.Count(log.String(), "key=turns "); n != 1 {
		t.Errorf("%d lines in the log name turns:\n%.2000s", n, log.String())
	}
}
