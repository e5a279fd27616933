package adapter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
)

// keeperTest drives a Keeper's pure core with a fake clock.
type keeperTest struct {
	t     *testing.T
	k     *Keeper
	now   time.Time
	alive map[string]bool
	log   bytes.Buffer
}

func newKeeperTest(t *testing.T) *keeperTest {
	b := &keeperTest{t: t, now: time.Unix(1000, 0), alive: map[string]bool{}}
	b.k = &Keeper{
		Alive: func(id string) bool { return b.alive[id] },
		Log:   slog.New(slog.NewTextHandler(&b.log, nil)),
	}
	return b
}

// list applies a good snapshot.
func (b *keeperTest) list(instances ...tandem.Instance) View {
	v, changed := b.k.Apply(registry.Snapshot{Instances: instances}, b.now)
	if !changed {
		b.t.Errorf("a list of %d was not delivered", len(instances))
	}
	return v
}

// pass advances the clock by d and calls Expire.
func (b *keeperTest) pass(d time.Duration) (View, bool) {
	b.now = b.now.Add(d)
	return b.k.Expire(b.now)
}

// want checks the IDs of a view in order, with suspects marked by '?'.
func (b *keeperTest) want(v View, want string) {
	b.t.Helper()
	var got []string
	for _, in := range v.Instances {
		id := in.ID
		if v.Suspect[id] {
			id += "?"
		}
		got = append(got, id)
	}
	if strings.Join(got, " ") != want {
		b.t.Errorf("view %q, want %q", got, want)
	}
}

func TestKeeperFollowsTheList(t *testing.T) {
	b := newKeeperTest(t)
	b.want(b.list(), "")
	b.want(b.list(members("b", "a", "c")...), "a b c")
	b.want(b.list(members("b", "c", "d")...), "b c d")
	b.want(b.list(members("b", "d")...), "b d")
	if next := b.k.Next(); !next.IsZero() {
		t.Errorf("something is due at %v", next)
	}
}

func TestKeeperThroughAnOutage(t *testing.T) {
	b := newKeeperTest(t)
	down := errors.New("connection refused")
	v, changed := b.k.Apply(registry.Snapshot{Err: down}, b.now)
	if !changed || len(v.Instances) != 0 || !errors.Is(v.Stale, down) {
		t.Errorf("before the first list: %+v, %v", v, changed)
	}
	b.want(b.list(members("a", "b")...), "a b")
	v, changed = b.k.Apply(registry.Snapshot{Err: down}, b.now)
	b.want(v, "a b")
	if !changed || !errors.Is(v.Stale, down) {
		t.Errorf("the failure is not delivered: %+v, %v", v, changed)
	}
	if _, changed = b.k.Apply(registry.Snapshot{Err: errors.New(down.Error())}, b.now); changed {
		t.Error("the same failure is delivered again")
	}
	if v, _ = b.pass(24 * time.Hour); v.Stale == nil {
		t.Error("the failure is forgotten")
	}
	b.want(v, "a b")
	if v = b.list(members("a", "b")...); v.Stale != nil {
		t.Errorf("still stale: %v", v.Stale)
	}
	if n := strings.Count(b.log.String(), "can't be read"); n != 2 {
		t.Errorf("%d log lines about 2 outages:\n%s", n, &b.log)
	}
}

// After an empty list all instances stay for one Grace, and after that those that are alive.
func TestKeeperKeepsInstancesAfterAnEmptyList(t *testing.T) {
	b := newKeeperTest(t)
	b.list(members("a", "b", "c")...)
	b.alive["b"] = true
	b.want(b.list(), "a? b? c?")
	if next := b.k.Next(); !next.Equal(b.now.Add(DefaultGrace)) {
		t.Errorf("next at %v", next)
	}
	if _, changed := b.pass(DefaultGrace - 1); changed {
		t.Error("expired before the grace was over")
	}
	v, changed := b.pass(1)
	b.want(v, "b?")
	if !changed {
		t.Error("not delivered")
	}
	if v, changed = b.pass(DefaultGrace); changed {
		t.Errorf("alive, but changed to %+v", v)
	}
	b.want(v, "b?")
	b.alive["b"] = false
	v, _ = b.pass(DefaultGrace)
	b.want(v, "")
	if next := b.k.Next(); !next.IsZero() {
		t.Errorf("something is due at %v", next)
	}
}

func TestKeeperWithoutAlive(t *testing.T) {
	b := newKeeperTest(t)
	b.k.Alive, b.k.Grace = nil, time.Second
	b.list(members("a")...)
	b.want(b.list(), "a?")
	v, _ := b.pass(time.Second)
	b.want(v, "")
}

func TestKeeperTakesASuspectBack(t *testing.T) {
	b := newKeeperTest(t)
	b.list(members("a", "b", "c")...)
	b.want(b.list(), "a? b? c?")
	b.want(b.list(members("a", "c", "d")...), "a b? c d")
	b.want(b.list(members("a", "b", "c", "d")...), "a b c d")
	if next := b.k.Next(); !next.IsZero() {
		t.Errorf("something is due at %v", next)
	}
}

func TestKeeperCollapse(t *testing.T) {
	for _, tc := range []struct {
		from, to int
		want     string
	}{
		{10, 5, "i0 i1 i2 i3 i4"},
		{4, 1, "i0 i1? i2? i3?"},
		{3, 1, "i0 i1? i2?"},
		{2, 1, "i0"},
		{1, 0, "i0?"},
	} {
		b := newKeeperTest(t)
		b.list(numbered(0, tc.from)...)
		b.want(b.list(numbered(0, tc.to)...), tc.want)
	}
}

// Watch events report a wiped registry one instance at a time. That is a collapse
// too: the instances that vanished first come back as suspects.
func TestKeeperCollapseInSteps(t *testing.T) {
	b := newKeeperTest(t)
	b.list(numbered(0, 5)...)
	b.want(b.list(numbered(1, 5)...), "i1 i2 i3 i4")
	b.now = b.now.Add(time.Second)
	b.want(b.list(numbered(2, 5)...), "i2 i3 i4")
	b.want(b.list(numbered(3, 5)...), "i0? i1? i2? i3 i4")
	b.want(b.list(), "i0? i1? i2? i3? i4?")
}

// Instances that vanish one by one over a long time do not become suspects.
func TestKeeperSlowDecline(t *testing.T) {
	b := newKeeperTest(t)
	for from := range 4 {
		var want []string
		for i := from; i < 5; i++ {
			want = append(want, fmt.Sprintf("i%d", i))
		}
		b.want(b.list(numbered(from, 5)...), strings.Join(want, " "))
		b.now = b.now.Add(DefaultGrace)
	}
}

// A deployment that replaces every instance, one at a time, makes no suspects.
func TestKeeperRollingDeploy(t *testing.T) {
	b := newKeeperTest(t)
	for i := range 10 {
		if v := b.list(numbered(i, 10+i)...); v.Suspect != nil {
			t.Fatalf("step %d: %v", i, v.Suspect)
		}
	}
}

func TestKeeperDropsInvalidInstances(t *testing.T) {
	b := newKeeperTest(t)
	bad := tandem.Instance{ID: "bad", Weight: -1, Endpoints: members("x")[0].Endpoints}
	twice := members("a", "a")
	twice[1].Weight = 7
	list := append(twice, bad, tandem.Instance{ID: strings.Repeat("x", 1<<20)}, tandem.Instance{}) //nolint:gocritic // twice is not used again
	v := b.list(list...)
	b.want(v, "a")
	if v.Instances[0].Weight != 0 {
		t.Error("the second of two with the same id was taken")
	}
	lines := strings.Split(strings.TrimSpace(b.log.String()), "\n")
	if len(lines) != 4 || b.log.Len() > 4096 ||
		!strings.Contains(b.log.String(), `instance=a reason="its id is listed twice"`) ||
		!strings.Contains(b.log.String(), `instance=bad reason="instance \"bad\" has weight -1`) {
		t.Errorf("log:\n%s", &b.log)
	}
	b.log.Reset()
	b.list(list...)
	if b.log.Len() > 0 {
		t.Errorf("logged again:\n%s", &b.log)
	}
	b.list(members("a")...)
	b.list(list...)
	if n := strings.Count(b.log.String(), "\n"); n != 4 {
		t.Errorf("%d lines for a flaw that came back", n)
	}
}

func TestKeeperIsBounded(t *testing.T) {
	b := newKeeperTest(t)
	for i := range 5 {
		b.list(numbered(2*i*registry.MaxInstances, (2*i+1)*registry.MaxInstances+1000)...)
	}
	v := b.list()
	if n := len(v.Instances); n != registry.MaxInstances {
		t.Errorf("a view of %d", n)
	}
	if n := strings.Count(b.log.String(), "dropped"); n > 5*maxRefused {
		t.Errorf("%d log lines", n)
	}
}

// A later list does not change a view that was delivered before.
func TestKeeperViewsAreIndependent(t *testing.T) {
	b := newKeeperTest(t)
	old := b.list(members("a", "b", "c", "d")...)
	b.list(members("c", "d", "e", "f")...)
	b.want(old, "a b c d")

	// The suspects of a view do not get into the list.
	b.list(append(members("e"), make([]tandem.Instance, 5)...)...)
	if _, changed := b.pass(DefaultGrace); !changed {
		t.Error("no suspect was dropped")
	}
	v, _ := b.pass(0)
	b.want(v, "e")
}

// script is a Resolver that delivers the snapshots sent to it.
type script chan registry.Snapshot

func (s script) Watch(ctx context.Context, _ registry.Target, update func(registry.Snapshot)) error {
	for {
		select {
		case snap, ok := <-s:
			if !ok {
				return errors.New("no such target")
			}
			update(snap)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func TestKeeperWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		b := newKeeperTest(t)
		b.alive["b"] = true
		feed, views, ended := make(script), make(chan View, 10), make(chan error, 1)
		go func() { ended <- b.k.Watch(ctx, feed, registry.Target{}, func(v View) { views <- v }) }()

		feed <- registry.Snapshot{Instances: members("a", "b")}
		b.want(<-views, "a b")
		start := time.Now()
		feed <- registry.Snapshot{}
		b.want(<-views, "a? b?")
		b.want(<-views, "b?")
		if d := time.Since(start); d != DefaultGrace {
			t.Errorf("expired after %v", d)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Watch returned %v", err)
		}
	})
}

func TestKeeperWatchEndsWithTheResolver(t *testing.T) {
	feed := make(script)
	close(feed)
	err := new(Keeper).Watch(t.Context(), feed, registry.Target{}, func(View) {})
	if err == nil || err.Error() != "no such target" {
		t.Errorf("Watch returned %v", err)
	}
}

// For any snapshots, views are sorted and have no ID twice, an empty list does not
// empty the view at once, and after two Graces no suspect is left.
func FuzzKeeper(f *testing.F) {
	f.Add([]byte{0b1111, 0, 0xff, 0b0001, 0xff, 0xff})
	f.Add([]byte{0b11111111, 0b1, 0b11111111, 0, 0xfe, 0xff})
	f.Fuzz(func(t *testing.T, steps []byte) {
		b := newKeeperTest(t)
		b.k.Log = nil
		for _, step := range steps[:min(len(steps), 200)] {
			switch {
			case step >= 0xfe:
				b.pass(DefaultGrace / 2)
			case step >= 0xf0:
				b.k.Apply(registry.Snapshot{Err: errors.New("down")}, b.now)
			default:
				b.list(chosen(step)...)
			}
			checkView(t, b.k)
		}
		b.list()
		b.pass(DefaultGrace)
		if v, _ := b.pass(DefaultGrace); len(v.Instances) != 0 || !b.k.Next().IsZero() {
			t.Fatalf("no instance is alive, but %d are left", len(v.Instances))
		}
	})
}

// chosen returns the instances whose bit is set.
func chosen(bits byte) []tandem.Instance {
	var list []tandem.Instance
	for i := range 8 {
		if bits>>i&1 == 1 {
			list = append(list, numbered(i, i+1)...)
		}
	}
	return list
}

func checkView(t *testing.T, k *Keeper) {
	t.Helper()
	v := k.view()
	if !slices.IsSortedFunc(v.Instances, byID) {
		t.Fatalf("not sorted: %s", ids(v.Instances))
	}
	if len(slices.CompactFunc(slices.Clone(v.Instances), func(a, b tandem.Instance) bool { return a.ID == b.ID })) != len(v.Instances) {
		t.Fatalf("an id twice: %s", ids(v.Instances))
	}
	if len(v.Suspect) > 0 == k.Next().IsZero() {
		t.Fatalf("suspects %v, next at %v", v.Suspect, k.Next())
	}
	if len(k.listed) == 0 && len(k.gone) > 0 && len(v.Instances) == 0 {
		t.Fatal("an empty list emptied the view")
	}
}
