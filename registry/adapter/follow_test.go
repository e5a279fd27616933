package adapter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
)

// entries returns instances of these IDs under keys of the same names.
func entries(ids ...string) map[string]tandem.Instance {
	m := make(map[string]tandem.Instance)
	for _, in := range members(ids...) {
		m[in.ID] = in
	}
	return m
}

// delivered is what a Follower delivers.
type delivered struct {
	mu   sync.Mutex
	list []registry.Snapshot
}

func (d *delivered) add(s registry.Snapshot) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list = append(d.list, s)
}

func (d *delivered) all() []registry.Snapshot {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.list)
}

// follow runs f in the bubble until the test ends.
func follow(t *testing.T, f Follower) *delivered {
	t.Helper()
	d := new(delivered)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Follow(ctx, d.add) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Follow returned %v", err)
		}
	})
	return d
}

func TestFollowGathersChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		news := follow(t, Follower{Name: "test registry", Session: func(ctx context.Context, m *Mirror) error {
			m.Set("early", members("early")[0]) // ignored before the first Replace
			m.Replace(entries("a"))
			pause(ctx, time.Millisecond)
			for i := range 100 { // 10 s of changes
				m.Set("b", members(fmt.Sprint("b", i))[0])
				pause(ctx, 100*time.Millisecond)
			}
			m.Delete("b")
			m.Delete("b")
			<-ctx.Done()
			return ctx.Err()
		}})
		synctest.Wait()
		if got := news.all(); len(got) != 1 || !reflect.DeepEqual(got[0].Instances, members("a")) {
			t.Errorf("%+v, want the first list at once", got)
		}
		time.Sleep(12 * time.Second)
		synctest.Wait()
		got := news.all()
		if n := len(got); n < 45 || n > 55 {
			t.Errorf("100 changes in 10 s were delivered as %d lists, want one in 200 ms", n)
		}
		if last := got[len(got)-1]; !reflect.DeepEqual(last.Instances, members("a")) {
			t.Errorf("the last list is %+v", last)
		}
	})
}

func TestFollowRestartsTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sessions := 0
		down := errors.New("down")
		news := follow(t, Follower{Name: "test registry", Session: func(ctx context.Context, m *Mirror) error {
			sessions++
			switch {
			case sessions == 1:
				m.Replace(entries("a"))
				return nil // a session that ends without an error
			case sessions < 100:
				return down
			}
			m.Replace(entries("a", "b"))
			<-ctx.Done()
			return ctx.Err()
		}})
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		got := news.all()
		if len(got[0].Instances) != 1 || !errors.Is(got[5].Err, down) {
			t.Errorf("it began with %+v", got[:6])
		}
		last := got[len(got)-1]
		if last.Err != nil || len(last.Instances) != 2 || last.Revision != 2 {
			t.Errorf("it ended with %+v", last)
		}
		if sessions < 105 || sessions > 130 {
			t.Errorf("%d sessions in ten minutes, want 100 that fail and then one in 23 to 45 s", sessions)
		}
	})
}

// A session misses a change: the next session must find it, and no error is delivered.
func TestFollowRelists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lists := []map[string]tandem.Instance{entries("a"), entries("a", "b")}
		news := follow(t, Follower{Name: "test registry", Session: func(ctx context.Context, m *Mirror) error {
			m.Replace(lists[0])
			lists = lists[len(lists)-1:]
			<-ctx.Done()
			return errors.New("something that follows from the end of the context")
		}})
		time.Sleep(45 * time.Second)
		synctest.Wait()
		if want := []registry.Snapshot{{Instances: members("a"), Revision: 1}, {Instances: members("a", "b"), Revision: 2}}; !reflect.DeepEqual(news.all(), want) {
			t.Errorf("delivered %+v\nwant %+v", news.all(), want)
		}
	})
}

// A list of 3,000 instances is delivered and read again a third as often as one of 1,000.
func TestFollowIsSlowerForLongLists(t *testing.T) {
	long := map[string]tandem.Instance{}
	for i := range 3 * unhurried {
		id := fmt.Sprint("i", i)
		long[id] = members(id)[0]
	}
	synctest.Test(t, func(t *testing.T) {
		var sessions, changes atomic.Int64
		news := follow(t, Follower{Name: "test registry", Session: func(ctx context.Context, m *Mirror) error {
			session := sessions.Add(1)
			m.Replace(maps.Clone(long))
			for session == 2 && changes.Load() < 100 { // 10 s of changes
				m.Set("i0", members(fmt.Sprint("i0-", changes.Add(1)))[0])
				pause(ctx, 100*time.Millisecond)
			}
			<-ctx.Done()
			return ctx.Err()
		}})
		time.Sleep(56 * time.Second) // the length is not known before the first session
		synctest.Wait()
		if n, s := len(news.all()), sessions.Load(); s != 2 || n < 12 || n > 25 {
			t.Errorf("%d sessions; 100 changes in 10 s were delivered as %d lists, want one in 600 ms", s, n)
		}
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		if s := sessions.Load(); s < 10 || s > 18 {
			t.Errorf("%d sessions in 20 minutes, want one in 67 to 135 s", s)
		}
	})
}

func TestFollowEndsForABadTarget(t *testing.T) {
	f := Follower{Name: "test registry", Session: func(context.Context, *Mirror) error {
		return tandem.Errorf(tandem.InvalidArgument, "no such place")
	}}
	err := f.Follow(t.Context(), func(s registry.Snapshot) { t.Errorf("delivered %+v", s) })
	if tandem.CodeOf(err) != tandem.InvalidArgument {
		t.Errorf("Follow returned %v", err)
	}
}

func TestMirrorDropsBadEntries(t *testing.T) {
	var text strings.Builder
	m := &Mirror{
		name: "test registry", log: slog.New(slog.NewTextHandler(&text, nil)),
		news: make(chan struct{}, 1), refused: map[string]string{},
	}
	for range 3 {
		if _, ok := m.Decode("k1", []byte("{")); ok {
			t.Error("half an object was accepted")
		}
		if _, ok := m.Decode("k2", []byte(`{"id":"a"}`)); ok {
			t.Error("an instance without endpoint was accepted")
		}
		if _, ok := m.Decode("k3", make([]byte, MaxEntry+1)); ok {
			t.Error("an entry that is too large was accepted")
		}
	}
	data, err := Encode(members("a")[0])
	if err != nil {
		t.Fatal(err)
	}
	if in, ok := m.Decode("k1", data); !ok || in.ID != "a" {
		t.Errorf("the output of Encode is decoded to %+v", in)
	}
	if n := strings.Count(text.String(), "entry dropped"); n != 3 {
		t.Errorf("three bad entries, three times each, made %d lines in the log:\n%s", n, text.String())
	}
	full := make(map[string]tandem.Instance)
	for i := range 2 * registry.MaxInstances {
		full[fmt.Sprint(i)] = tandem.Instance{}
	}
	m.Replace(full)
	m.Set("one more", tandem.Instance{})
	if n := len(m.list()); n != 2*registry.MaxInstances {
		t.Errorf("the mirror holds %d entries", n)
	}
}

// A valid entry that is replaced by a bad one leaves the list, and a bad entry that is
// written several times is logged once.
func TestBadEntryReplacesGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text strings.Builder
		f := Follower{Name: "test registry", Log: slog.New(slog.NewTextHandler(&text, nil))}
		f.Session = func(ctx context.Context, m *Mirror) error {
			m.Replace(entries("a", "b"))
			pause(ctx, time.Second)
			for range 3 {
				m.Decode("b", []byte("{"))
			}
			<-ctx.Done()
			return ctx.Err()
		}
		news := follow(t, f)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		got := news.all()
		if last := got[len(got)-1]; !reflect.DeepEqual(last.Instances, members("a")) {
			t.Errorf("the last list is %+v", last)
		}
		if n := strings.Count(text.String(), "entry dropped"); n != 1 {
			t.Errorf("a bad entry made %d lines in the log:\n%s", n, text.String())
		}
	})
}

func TestShared(t *testing.T) {
	opened, closed := 0, 0
	s := Shared[*int]{
		Open: func(key string) (*int, error) {
			if key == "bad" {
				return nil, errors.New("bad")
			}
			opened++
			return &opened, nil
		},
		Close: func(*int) { closed++ },
	}
	acquire := func(key string) func() {
		_, release, err := s.Acquire(key)
		if err != nil {
			t.Fatal(err)
		}
		return release
	}
	a1, a2, b := acquire("a"), acquire("a"), acquire("b")
	if opened != 2 {
		t.Errorf("two keys opened %d connections", opened)
	}
	a1()
	if closed != 0 {
		t.Error("closed while in use")
	}
	a2()
	b()
	if closed != 2 || len(s.open) != 0 {
		t.Errorf("%d closed, %d left", closed, len(s.open))
	}
	acquire("a")()
	if opened != 3 || closed != 3 {
		t.Errorf("used again: %d opened, %d closed", opened, closed)
	}
	if _, _, err := s.Acquire("bad"); err == nil {
		t.Error("a failure of Open is not returned")
	}
}
