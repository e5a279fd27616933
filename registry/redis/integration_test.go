//go:build integration

package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
)

// open returns the registry of a target. It is closed when the test ends.
func open(t testing.TB, target string, opts ...Option) *Registry {
	t.Helper()
	r, err := New(target, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// register lists an instance until the test ends.
func register(t testing.TB, r *Registry, in tandem.Instance) registry.Registration {
	t.Helper()
	reg, err := r.Register(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reg.Close() })
	return reg
}

// view records what a watch delivers.
type view struct {
	t     testing.TB
	mu    sync.Mutex
	last  registry.Snapshot
	errs  int
	empty int // number of empty lists after one that was not empty
	some  bool
	news  chan struct{}
}

// look watches until the test ends.
func look(t testing.TB, r registry.Resolver, target string) *view {
	v := &view{t: t, news: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Watch(ctx, mustParse(t, target), v.update) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Watch returned %v", err)
		}
	})
	return v
}

func (v *view) update(s registry.Snapshot) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if s.Err != nil {
		v.errs++
	} else {
		v.last = s
		v.some = v.some || len(s.Instances) > 0
		if v.some && len(s.Instances) == 0 {
			v.empty++
		}
	}
	select {
	case v.news <- struct{}{}:
	default:
	}
}

// until waits until ok returns true, and returns how long that took.
func (v *view) until(what string, within time.Duration, ok func() bool) time.Duration {
	v.t.Helper()
	start, timeout := time.Now(), time.After(within)
	for {
		v.mu.Lock()
		good, last := ok(), v.last
		v.mu.Unlock()
		if good {
			return time.Since(start)
		}
		select {
		case <-v.news:
		case <-timeout:
			v.t.Fatalf("no %s after %v; %d instances: %.300q", what, within, len(last.Instances), ids(last))
		}
	}
}

// sees waits for a list of exactly the IDs in want.
func (v *view) sees(within time.Duration, want ...string) time.Duration {
	v.t.Helper()
	slices.Sort(want)
	return v.until(fmt.Sprintf("list of %.300q", want), within, func() bool { return slices.Equal(ids(v.last), want) })
}

func ids(s registry.Snapshot) (list []string) {
	for _, in := range s.Instances {
		list = append(list, in.ID)
	}
	return list
}

// TestServerKilledAndEmptied: a hundred instances are listed again after the server has
// crashed and lost its data.
func TestServerKilledAndEmptied(t *testing.T) {
	s := start(t)
	const ttl = 6 * time.Second
	target := s.target("prod/Arith?ttl=6s")
	r := open(t, target)
	v := look(t, Resolver(), target)
	var want []string
	for i := range 100 {
		want = append(want, fmt.Sprintf("i%02d", i))
		register(t, r, instance(want[i]))
	}
	v.sees(5*time.Second, want...)

	s.kill()
	v.until("error", 5*time.Second, func() bool { return v.errs > 0 })
	s.forget()
	<-time.After(2 * time.Second) // the outage: real time of a real server
	s.run()
	back := time.Now()
	admin := s.admin()
	for admin.HLen(t.Context(), keys("prod/Arith")[0]).Val() < 100 {
		if time.Since(back) > ttl+5*time.Second {
			t.Fatalf("%v after the server came back not all are listed", time.Since(back))
		}
		<-time.After(20 * time.Millisecond) // Redis does not announce it
	}
	t.Logf("all 100 are listed again %v after the server came back", time.Since(back))
	register(t, r, instance("new"))
	v.sees(5*time.Second, append(want, "new")...)
	if v.empty > 0 {
		t.Errorf("%d empty lists", v.empty)
	}
}

// TestDeadProcess: the end of a process is not announced. Its instance leaves the list a
// moment after its time to live.
func TestDeadProcess(t *testing.T) {
	s := start(t)
	r := open(t, s.target("a?ttl=2s"))
	v := look(t, Resolver(WithTTL(time.Minute)), s.target("a"))
	register(t, r, instance("alive"))
	e := newEntry(r.conn, "a", 2*time.Second)
	if err := e.Put(t.Context(), instance("dead")); err != nil {
		t.Fatal(err)
	}
	v.sees(time.Second, "alive", "dead")
	took := v.sees(3*time.Second, "alive")
	if took < 1500*time.Millisecond || took > 2500*time.Millisecond {
		t.Errorf("gone %v after it was last heard of, with a time to live of 2 s", took)
	}
	if n := s.admin().HLen(t.Context(), keys("a")[0]).Val(); n > 2 {
		t.Errorf("%d entries are stored", n)
	}
}

// TestAnnouncements: changes are announced, so a watch that would read the list again in a
// minute sees them at once.
func TestAnnouncements(t *testing.T) {
	s := start(t)
	target := s.target("a?ttl=1m")
	v := look(t, Resolver(), target)
	v.until("first list", time.Second, func() bool { return v.last.Revision > 0 })
	<-time.After(300 * time.Millisecond) // the watch has read the list twice, as it does at its start
	reg := register(t, open(t, target), instance("a"))
	v.sees(time.Second, "a")
	in := instance("a")
	in.Weight = 7
	if err := reg.Update(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	v.until("update", time.Second, func() bool { return len(v.last.Instances) == 1 && v.last.Instances[0].Weight == 7 })
	if err := reg.Close(); err != nil {
		t.Fatal(err)
	}
	v.sees(time.Second)
}

// TestNothingIsLeft: when the last instance of a list has expired, Redis keeps nothing of
// the list.
func TestNothingIsLeft(t *testing.T) {
	s := start(t)
	r := open(t, s.target("a?ttl=1s"))
	for i := range 3 {
		e := newEntry(r.conn, "a", time.Second)
		if err := e.Put(t.Context(), instance(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	admin, start := s.admin(), time.Now()
	for admin.DBSize(t.Context()).Val() > 0 {
		if time.Since(start) > 3*time.Second {
			t.Fatalf("still there: %q", admin.Keys(t.Context(), "*").Val())
		}
		<-time.After(20 * time.Millisecond) // Redis does not announce it
	}
}

func TestEverythingDeleted(t *testing.T) {
	s := start(t)
	target := s.target("a?ttl=2s")
	r := open(t, target)
	register(t, r, instance("a"))
	register(t, r, instance("b"))
	if err := s.admin().FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	look(t, Resolver(), target).sees(2*time.Second, "a", "b")
}

// TestManyWatches: two thousand lists are watched through one subscribed connection.
func TestManyWatches(t *testing.T) {
	const n = 2000
	s := start(t)
	r := open(t, s.target("any"))
	views := make([]*view, n)
	for i := range views {
		views[i] = look(t, r, s.target(fmt.Sprintf("prod/S%d", i)))
	}
	began := time.Now()
	for _, v := range views {
		v.until("first list", 20*time.Second, func() bool { return v.last.Revision > 0 })
	}
	t.Logf("%d watches had their first list after %v", n, time.Since(began))
	clients := s.admin().ClientList(t.Context()).Val()
	if listeners := strings.Count(clients, "flags=P"); listeners != 1 {
		t.Errorf("%d connections listen", listeners)
	}
	if all := strings.Count(clients, "\n"); all > 10 {
		t.Errorf("%d connections", all)
	}
	began = time.Now()
	for i := range views {
		e := newEntry(r.conn, fmt.Sprintf("prod/S%d", i), time.Minute)
		if err := e.Put(t.Context(), instance("a")); err != nil {
			t.Fatal(err)
		}
	}
	for _, v := range views {
		v.sees(10*time.Second, "a")
	}
	t.Logf("%d changes were written and seen after %v", n, time.Since(began))
}

// logged collects log output. It is safe for concurrent use.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestHostileEntries(t *testing.T) {
	s := start(t)
	target := s.target("a?ttl=5s")
	admin, entries, until := s.admin(), keys("a")[0], keys("a")[1]
	later := float64(time.Now().Add(time.Hour).UnixMilli())
	const endpoints = `"endpoints":[{"transport":"tcp","address":"b:1"}]`
	for id, text := range map[string]string{
		"json":    "owner {{{",
		"weight":  `{"id":"weight","weight":1000000000000000000000,` + endpoints + `}`,
		"heavy":   `{"id":"heavy","weight":10001,` + endpoints + `}`,
		"double":  `{"id":"good",` + endpoints + `}`,
		"nothing": "",
		"large":   `{"id":"large",` + endpoints + `,"version":"` + strings.Repeat("x", 1<<20) + `"}`,
		"odd":     `{"id":"odd","endpoints":[{"transport":"carrier pigeon","address":"b"}]}`, // valid here: the client decides whether it knows the transport
		"\xff":    `{"id":"` + "\xff" + `",` + endpoints + `}`,
	} {
		admin.HSet(t.Context(), entries, id, text)
		admin.ZAdd(t.Context(), until, goredis.Z{Score: later, Member: id})
	}
	admin.ZAdd(t.Context(), until, goredis.Z{Score: later, Member: "no entry"})
	admin.Do(t.Context(), "ZADD", until, "+inf", "for ever")
	admin.HSet(t.Context(), entries, "for ever", `{"id":"for ever",`+endpoints+`}`)

	var out logged
	v := look(t, Resolver(WithLogger(slog.New(slog.NewTextHandler(&out, nil)))), target)
	v.sees(2*time.Second, "for ever", "odd")
	r := open(t, target)
	register(t, r, instance("good"))
	v.sees(2*time.Second, "for ever", "good", "odd")
	register(t, r, instance("more"))
	v.sees(2*time.Second, "for ever", "good", "more", "odd")
	fields, err := (&watch{conn: r.conn, list: "a"}).read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+2 < len(fields); i += 3 {
		if _, size := fields[i+1].(int64); size != (fields[i] == "large") {
			t.Errorf("of %q %.50v is read", fields[i], fields[i+1])
		}
	}
	said := out.String()
	for _, id := range []string{"json", "weight", "heavy", "double", "large"} {
		if n := strings.Count(said, "key=a/"+id+" "); n != 1 {
			t.Errorf("%d lines in the log about %s: %s", n, id, said)
		}
	}
}

// TestIncarnations: of incarnations that register under one ID at the same time, the one
// that started last is listed in the end.
func TestIncarnations(t *testing.T) {
	s := start(t)
	r := open(t, s.target("a?ttl=2s"))
	const n = 20
	var wg sync.WaitGroup
	entries := make([]*entry, n)
	errs := make([]error, n)
	for i := range n {
		in := instance("a")
		in.Started, in.Incarnation, in.Weight = time.Unix(int64(1000+i), 0), fmt.Sprint(i), i+1
		entries[i] = newEntry(r.conn, "a", 2*time.Second)
		wg.Go(func() {
			for { // Put fails if others are quicker five times in a row
				errs[i] = entries[i].Put(t.Context(), in)
				if errs[i] == nil || errors.Is(errs[i], registry.ErrSuperseded) {
					return
				}
			}
		})
	}
	wg.Wait()
	if errs[n-1] != nil {
		t.Error(errs[n-1])
	}
	for i, e := range entries[:n-1] {
		if e.in.ID == "" {
			t.Fatal("an entry knows nothing")
		}
		if err := e.Check(t.Context()); !errors.Is(err, registry.ErrSuperseded) {
			t.Errorf("incarnation %d: %v", i, err)
		}
		if err := e.Delete(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if err := entries[n-1].Check(t.Context()); err != nil {
		t.Error(err)
	}
	v := look(t, r, s.target("a"))
	v.until("list of the last", time.Second, func() bool {
		return len(v.last.Instances) == 1 && v.last.Instances[0].Weight == n
	})
}
