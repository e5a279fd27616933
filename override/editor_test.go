package override

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/history"
)

// service is a list of n instances in a registry, and the editor of their overrides.
func service(t *testing.T, n int) (*registry.Memory, registry.Target, *Editor) {
	t.Helper()
	m := registry.NewMemory()
	for _, in := range instances(n) {
		in.Endpoints = []tandem.Endpoint{{Transport: "tcp", Address: in.ID + ":1"}}
		r, err := m.Register(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	target, err := registry.ParseTarget("memory://shop")
	if err != nil {
		t.Fatal(err)
	}
	e, err := NewEditor(m, target)
	if err != nil {
		t.Fatal(err)
	}
	return m, target, e
}

// now returns what the overrides in force do.
func (e *Editor) now(t *testing.T) string {
	t.Helper()
	o, err := e.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	list, err := e.Instances(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return effect(o, list, time.Now())
}

func do(t *testing.T, o *Overrides, err error) *Overrides {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestEditor(t *testing.T) {
	_, _, e := service(t, 3)
	ann := Request{By: "ann", Why: "a test"}
	set := func(s ...Override) *Overrides {
		t.Helper()
		o, err := e.Set(t.Context(), ann, s...)
		return do(t, o, err)
	}
	want := func(text string) {
		t.Helper()
		if got := e.now(t); got != text {
			t.Errorf("in force: %s, want %s", got, text)
		}
	}
	want("i1 i2 i3")
	set(Override{Instance: "i1", State: Disabled})
	want("i2 i3 (i1: disabled by ann: a test)")
	set(Override{Instance: "i1", State: Draining}, Override{Instance: "i2", Weight: 40})
	want("i2=40 i3 (i1: draining by ann: a test)")
	if o := set(Override{Instance: "i1", State: Enabled}); len(o.Set) != 1 {
		t.Errorf("nothing but the weight should be left: %+v", o.Set)
	}
	want("i1 i2=40 i3")
	set(Override{Labels: map[string]string{"zone": "a"}, State: Disabled})
	want("i2=40 (i1: disabled by ann: a test) (i3: disabled by ann: a test)")
	set(Override{Instance: "i1", State: Enabled})
	want("i1 i2=40 (i3: disabled by ann: a test)")
	o, err := e.Clear(t.Context(), ann, Override{Labels: map[string]string{"zone": "a"}}, Override{Instance: "i2"})
	do(t, o, err)
	want("i1 i2 i3")
	o, err = e.Restore(t.Context(), Request{By: "bob"}, 2)
	if o = do(t, o, err); o.Change.By != "bob" || o.Change.Revision != 7 {
		t.Errorf("the change is %+v", o.Change)
	}
	want("i2=40 i3 (i1: draining by ann: a test)")
	if kept, err := e.Store.Versions(t.Context()); err != nil || len(kept) != 7 {
		t.Errorf("%d versions are kept, %v", len(kept), err)
	}
}

func TestEditorRefuses(t *testing.T) {
	_, _, e := service(t, 2)
	ann := Request{By: "ann"}
	off := func(id string) Override { return Override{Instance: id, State: Disabled} }
	for name, test := range map[string]struct {
		r    Request
		set  Override
		want string
	}{
		"author":  {Request{Why: "x"}, off("i1"), "who makes it"},
		"invalid": {ann, Override{Instance: "i1"}, "a state or a weight"},
		"past":    {ann, Override{Instance: "i1", State: Disabled, Until: time.Now().Add(-time.Hour)}, "is over"},
		"all":     {ann, Override{Labels: map[string]string{"version": "1"}, State: Draining}, ErrEmpty.Error()},
	} {
		if _, err := e.Set(t.Context(), test.r, test.set); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
	}
	if _, err := e.Clear(t.Context(), ann, off("i1")); !errors.Is(err, ErrUnchanged) {
		t.Errorf("clearing nothing: %v", err)
	}
	if _, err := e.Set(t.Context(), ann, off("i1")); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Set(t.Context(), ann, off("i2")); !errors.Is(err, ErrEmpty) {
		t.Errorf("the last one: %v", err)
	}
	if _, err := e.Set(t.Context(), Request{By: "ann", AllowEmpty: true}, off("i2")); err != nil {
		t.Errorf("the last one, on purpose: %v", err)
	}
	if got := e.now(t); got != "(i1: disabled by ann) (i2: disabled by ann)" {
		t.Errorf("in force: %s", got)
	}
	target, err := registry.ParseTarget("static://a:1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewEditor(registry.Static(), target); err == nil || !strings.Contains(err.Error(), "keeps no documents") {
		t.Errorf("a list without a registry: %v", err)
	}
}

// An invalid document, written by other means, can be replaced by an earlier revision, and by
// nothing else. What is enabled already needs no override.
func TestEditorRepairs(t *testing.T) {
	m, _, e := service(t, 2)
	ann := Request{By: "ann"}
	if _, err := e.Set(t.Context(), ann, Override{Instance: "i1", State: Enabled}); !errors.Is(err, ErrUnchanged) {
		t.Errorf("enabling what is enabled: %v", err)
	}
	o, err := e.Set(t.Context(), ann, Override{Instance: "i1", State: Disabled})
	do(t, o, err)
	m.PutDocument(e.Store.Key, []byte(`{"set": [{"instance": "i1", "state": "off"}]}`))
	if _, err := e.Set(t.Context(), ann, Override{Instance: "i2", Weight: 3}); err == nil || !strings.Contains(err.Error(), "restore an earlier revision") {
		t.Errorf("a change of an invalid document: %v", err)
	}
	o, err = e.Restore(t.Context(), ann, 1)
	if do(t, o, err); o.Change.Revision != 3 || e.now(t) != "i2 (i1: disabled by ann)" {
		t.Errorf("restored is %+v: %s", o, e.now(t))
	}
	o, err = e.Set(t.Context(), ann, Override{Instance: "i1", State: Enabled})
	do(t, o, err)
	m.PutDocument(e.Store.Key, []byte(`{"set": [{}]}`))
	if o, err = e.Restore(t.Context(), ann, 4); err != nil || len(o.Set) != 0 {
		t.Errorf("nothing is set in revision 4: %+v, %v", o, err)
	}
	m.PutDocument(e.Store.Key, nil)
	if v, err := e.Store.Read(t.Context()); err != nil || v.Revision != 7 || v.Text != "" {
		t.Errorf("a deletion by other means is %+v, %v", v, err)
	}
}

// Of operators who disable all instances at once, one is refused.
func TestConcurrentOperators(t *testing.T) {
	_, _, e := service(t, 4)
	refused := make(chan error, 4)
	var wg sync.WaitGroup
	for i := 1; i <= 4; i++ {
		wg.Go(func() {
			_, err := e.Set(t.Context(), Request{By: fmt.Sprint("operator ", i)}, Override{Instance: fmt.Sprint("i", i), State: Disabled})
			if err != nil {
				refused <- err
			}
		})
	}
	wg.Wait()
	close(refused)
	count := 0
	for err := range refused {
		if count++; !errors.Is(err, ErrEmpty) {
			t.Error(err)
		}
	}
	if count != 1 {
		t.Errorf("%d operators are refused: %s", count, e.now(t))
	}
}

// A ramp begins at the weight that is in force.
func TestRampBeginsWhereItIs(t *testing.T) {
	_, _, e := service(t, 2)
	ramp := policy.Duration(time.Hour)
	for _, step := range []struct{ weight, from int }{{40, 100}, {10, 100}} { // the second one begins as the first one has just begun
		o, err := e.Set(t.Context(), Request{By: "ann"}, Override{Instance: "i1", Weight: step.weight, Ramp: ramp})
		if o = do(t, o, err); len(o.Set) != 1 || o.Set[0].From != step.from {
			t.Errorf("to %d: %+v", step.weight, o.Set)
		}
	}
	o, err := e.Set(t.Context(), Request{By: "ann"}, Override{Instance: "i1", Weight: 7}, Override{Instance: "i2", State: Disabled})
	do(t, o, err)
	o, err = e.Set(t.Context(), Request{By: "ann"}, Override{Instance: "i1", Weight: 70, Ramp: ramp})
	if o = do(t, o, err); o.Set[1].From != 7 {
		t.Errorf("from 7: %+v", o.Set)
	}
}

// A ramp by labels begins at the weights that are in force, too.
func TestRampByLabelsBeginsWhereItIs(t *testing.T) {
	ann, ramp := Request{By: "ann"}, policy.Duration(time.Hour)
	all, zoneA := map[string]string{"version": "1"}, map[string]string{"zone": "a"}
	for _, test := range []struct {
		name   string
		before []Override
		want   string // right after a ramp of all to 100 has begun
		from   int
		each   string
	}{
		{"registered weights", nil, "i1=100 i2=100 i3=100", 0, "map[]"},
		{"one weight for all", []Override{{Labels: all, Weight: 5}}, "i1=5 i2=5 i3=5", 5, "map[]"},
		{"a ramp that has just begun", []Override{{Labels: all, Weight: 5}, {Labels: all, Weight: 80, Ramp: ramp}}, "i1=5 i2=5 i3=5", 5, "map[]"},
		{"other labels", []Override{{Labels: zoneA, Weight: 7}}, "i1=7 i2=100 i3=7", 0, "map[i1:7 i3:7]"},
		{"two weights", []Override{{Labels: all, Weight: 5}, {Labels: zoneA, Weight: 7}}, "i1=7 i2=5 i3=7", 0, "map[i1:7 i2:5 i3:7]"},
		{"a weight by ID", []Override{{Labels: all, Weight: 5}, {Instance: "i2", Weight: 9}}, "i1=5 i2=9 i3=5", 5, "map[]"},
		{"a state", []Override{{Labels: all, Weight: 5}, {Instance: "i2", State: Disabled}}, "i1=5 i3=5 (i2: disabled by ann)", 5, "map[]"},
	} {
		_, _, e := service(t, 3)
		for _, s := range test.before {
			o, err := e.Set(t.Context(), ann, s)
			do(t, o, err)
		}
		o, err := e.Set(t.Context(), ann, Override{Labels: all, Weight: 100, Ramp: ramp})
		begun := do(t, o, err).Set[len(o.Set)-1]
		if got := e.now(t); got != test.want || begun.From != test.from || fmt.Sprint(begun.FromEach) != test.each {
			t.Errorf("%s: %s from %d, %v; want %s from %d, %s", test.name, got, begun.From, begun.FromEach, test.want, test.from, test.each)
		}
	}
}

// A change is refused while the registry can't be read, as its effect can't be checked.
func TestEditorWithoutList(t *testing.T) {
	_, _, e := service(t, 2)
	e.Instances = func(context.Context) ([]tandem.Instance, error) { return nil, errors.New("the registry is down") }
	if _, err := e.Set(t.Context(), Request{By: "ann"}, Override{Instance: "i1", State: Disabled}); err == nil || !strings.Contains(err.Error(), "is down") {
		t.Errorf("the change: %v", err)
	}
	if v, err := e.Store.Read(t.Context()); err != nil || v != (history.Version{}) {
		t.Errorf("stored is %+v, %v", v, err)
	}
}

// Tags that the instance has anyway are not written, so to set them again ends an override.
func TestEditorTags(t *testing.T) {
	_, _, e := service(t, 2)
	ann := Request{By: "ann"}
	set := func(tags map[string]string) string {
		t.Helper()
		o, err := e.Set(t.Context(), ann, Override{Instance: "i1", Tags: tags})
		o = do(t, o, err)
		if len(o.Set) == 0 {
			return "none"
		}
		return fmt.Sprint(o.Set[0].Tags)
	}
	if _, err := e.Set(t.Context(), ann, Override{Instance: "i1", Tags: map[string]string{"disk": "1", "no": ""}}); !errors.Is(err, ErrUnchanged) {
		t.Errorf("tags as they are: %v", err)
	}
	if got := set(map[string]string{"disk": "1", "lane": "blue"}); got != "map[lane:blue]" {
		t.Error(got)
	}
	if got := set(map[string]string{"disk": ""}); got != "map[disk:]" { // in place of the one before
		t.Error(got)
	}
	if got := set(map[string]string{"disk": "1"}); got != "none" {
		t.Error(got)
	}
}
