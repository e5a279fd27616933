package override

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/policy"
)

// epoch is when things begin in the tests.
func epoch() time.Time { return time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC) }

// instances returns n instances, i1 to in: the odd ones are in zone a, the even ones in zone b.
func instances(n int) []tandem.Instance {
	var list []tandem.Instance
	for i := 1; i <= n; i++ {
		list = append(list, tandem.Instance{ID: fmt.Sprint("i", i), Zone: string(rune('b' - i%2)), Version: "1", Tags: map[string]string{"disk": fmt.Sprint(i)}})
	}
	return list
}

// effect describes what overrides do: "i1 i2=50 (i3: disabled)".
func effect(o *Overrides, list []tandem.Instance, now time.Time) string {
	e := o.Apply(list, now)
	var words []string
	for _, in := range e.Enabled {
		word := in.ID
		if in.Weight != 0 {
			word += fmt.Sprint("=", in.Weight)
		}
		words = append(words, word)
	}
	for _, id := range slices.Sorted(maps.Keys(e.Withheld)) {
		s := e.Withheld[id]
		words = append(words, fmt.Sprintf("(%s: %v)", id, &s))
	}
	return strings.Join(words, " ")
}

func TestApply(t *testing.T) {
	in := func(id string, s Override) Override { s.Instance = id; return s }
	by := func(name, value string, s Override) Override {
		s.Labels = map[string]string{name: value}
		return s
	}
	off, on, drain, light := Override{State: Disabled}, Override{State: Enabled}, Override{State: Draining}, Override{Weight: 10}
	ended := Override{State: Disabled, Until: epoch()}
	for _, test := range []struct {
		name string
		set  []Override
		want string
	}{
		{"nothing", nil, "i1 i2 i3 i4"},
		{"an instance", []Override{in("i2", off)}, "i1 i3 i4 (i2: disabled)"},
		{"one that is not listed", []Override{in("i9", off)}, "i1 i2 i3 i4"},
		{"a zone", []Override{by("zone", "a", drain)}, "i2 i4 (i1: draining) (i3: draining)"},
		{"a tag", []Override{by("disk", "3", light)}, "i1 i2 i3=10 i4"},
		{"an unknown label", []Override{by("colour", "red", off)}, "i1 i2 i3 i4"},
		{"both labels", []Override{{Labels: map[string]string{"zone": "b", "disk": "4"}, State: Disabled}}, "i1 i2 i3 (i4: disabled)"},
		{"the instance counts more", []Override{in("i1", on), by("zone", "a", off)}, "i1 i2 i4 (i3: disabled)"},
		{"the later label counts", []Override{by("zone", "a", off), by("version", "1", on)}, "i1 i2 i3 i4"},
		{"state and weight", []Override{in("i1", light), by("zone", "a", on), in("i2", off), in("i2", light)}, "i1=10 i3 i4 (i2: disabled)"},
		{"a clock that is behind", []Override{in("i1", Override{Weight: 50, At: epoch().Add(time.Hour)})}, "i1=50 i2 i3 i4"},
		{"one that has ended", []Override{in("i1", ended)}, "i1 i2 i3 i4"},
	} {
		if got := effect(&Overrides{Set: test.set}, instances(4), epoch()); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// The list that Apply is given stays as it is: others use it, too.
func TestApplyChangesNothing(t *testing.T) {
	list := instances(3)
	o := Overrides{Set: []Override{{Instance: "i1", Weight: 7}, {Instance: "i2", State: Disabled}}}
	o.Apply(list, epoch())
	if got, want := fmt.Sprint(list), fmt.Sprint(instances(3)); got != want {
		t.Errorf("the list became %s", got)
	}
}

func TestRamp(t *testing.T) {
	o := Overrides{Set: []Override{{Instance: "i1", Weight: 100, From: 1, Ramp: policy.Duration(100 * time.Second), At: epoch()}}}
	now := epoch().Add(-time.Hour) // a clock that is behind
	var seen []string
	for !now.IsZero() {
		e := o.Apply(instances(1), now)
		if !e.Next.IsZero() && e.Next.Sub(now) < 2*time.Second {
			t.Fatalf("at %v the next step is at %v", now, e.Next)
		}
		seen = append(seen, fmt.Sprint(e.Enabled[0].Weight))
		now = e.Next
	}
	if got := strings.Join(seen, " "); !strings.HasPrefix(got, "1 2 4 6 8 10 ") || !strings.HasSuffix(got, " 96 98 100") || len(seen) != 51 {
		t.Errorf("%d weights: %s", len(seen), got)
	}
	down := Overrides{Set: []Override{{Labels: map[string]string{"zone": "a"}, Weight: 20, Ramp: policy.Duration(10 * time.Second), At: epoch()}}}
	list := instances(3)
	list[2].Weight = 40
	if got := effect(&down, list, epoch().Add(5*time.Second)); got != "i1=60 i2 i3=30" {
		t.Errorf("half way down: %s", got)
	}
}

func TestNextEnd(t *testing.T) {
	end := epoch().Add(time.Minute)
	o := Overrides{Set: []Override{{Instance: "i1", State: Disabled, Until: end.Add(time.Hour)}, {Instance: "i2", State: Disabled, Until: end}}}
	if e := o.Apply(instances(2), epoch()); !e.Next.Equal(end) {
		t.Errorf("the first change is at %v", e.Next)
	}
	if e := o.Apply(instances(2), end); len(e.Enabled) != 1 || e.Enabled[0].ID != "i2" {
		t.Errorf("at its end: %+v", e)
	}
}

func TestParse(t *testing.T) {
	good := `{"change": {"revision": 3, "by": "ann"}, "set": [
		{"instance": "i1", "state": "disabled", "by": "ann", "why": "the disk is full", "at": "2026-11-01T12:00:00Z"},
		{"labels": {"zone": "b"}, "weight": 50, "from": 100, "ramp": "5m"}]}`
	o, err := Parse([]byte(good))
	if err != nil || len(o.Set) != 2 || time.Duration(o.Set[1].Ramp) != 5*time.Minute || o.Change.Revision != 3 {
		t.Fatalf("%+v, %v", o, err)
	}
	if got := o.Set[0].String() + "; " + o.Set[1].String(); got != "disabled by ann: the disk is full; weight 50 within 5m0s" {
		t.Errorf("in words: %s", got)
	}
	if o, err := Parse(nil); err != nil || len(o.Set) != 0 {
		t.Errorf("no text: %+v, %v", o, err)
	}
	for bad, why := range map[string]string{
		`{"set": [{"instance": "a", "state": "asleep"}]}`:                                           "enabled, disabled or draining",
		`{"set": [{"state": "disabled"}]}`:                                                          "either an instance or labels",
		`{"set": [{"instance": "a", "labels": {"b": "c"}, "weight": 1}]}`:                           "either an instance or labels",
		`{"set": [{"instance": "a"}]}`:                                                              "either a state or a weight",
		`{"set": [{"instance": "a", "state": "enabled", "weight": 3}]}`:                             "either a state or a weight",
		`{"set": [{"instance": "a", "weight": 10001}]}`:                                             "weight 10001",
		`{"set": [{"instance": "a", "weight": -1}]}`:                                                "weight -1",
		`{"set": [{"instance": "a", "weight": 1, "ramp": "25h"}]}`:                                  "ramp",
		`{"set": [{"instance": "a", "state": "disabled", "ramp": "5m"}]}`:                           "ramp",
		`{"set": [{"instance": "a", "weight": 1, "ramp": "5m", "fromEach": {"a": 1}}]}`:             "only for a ramp by labels",
		`{"set": [{"labels": {"zone": "b"}, "weight": 1, "fromEach": {"a": 1}}]}`:                   "only for a ramp by labels",
		`{"set": [{"labels": {"zone": "b"}, "weight": 1, "ramp": "5m", "fromEach": {"a": 10001}}]}`: "weight 10001 of",
		`{"set": [{"instance": "a", "weight": 1, "wieght": 1}]}`:                                    "wieght",
		`{"set": [{"labels": {"zone": ""}, "state": "disabled"}]}`:                                  "a label without a value",
		`{"set": []} {}`: "more after",
		`{"set": [{"instance": "` + strings.Repeat("x", 513) + `", "state": "enabled"}]}`: "513 bytes",
	} {
		if _, err := Parse([]byte(bad)); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%.60s: %v, want %s", bad, err, why)
		}
	}
	many, err := json.Marshal(Overrides{Set: make([]Override, MaxOverrides+1)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Parse(many); err == nil || !strings.Contains(err.Error(), "limit 2000") {
		t.Errorf("too many: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"set": [{"instance": "i1", "state": "disabled"}, {"labels": {"zone": "b"}, "weight": 50, "from": 100, "ramp": "5m", "at": "2026-11-01T12:00:00Z"}]}`))
	f.Add([]byte(`{"set": [{"labels": {"zone": "b"}, "weight": 50, "fromEach": {"i2": 7}, "ramp": "5m", "at": "2026-11-01T12:00:00Z"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		o, err := Parse(text)
		if err != nil {
			return
		}
		list := instances(5)
		e := o.Apply(list, epoch())
		if len(e.Enabled)+len(e.Withheld) != len(list) {
			t.Fatalf("of 5 instances %d are enabled and %d withheld", len(e.Enabled), len(e.Withheld))
		}
		for _, in := range e.Enabled {
			if in.Weight < 0 || in.Weight > tandem.MaxWeight {
				t.Fatalf("weight %d", in.Weight)
			}
		}
		if !e.Next.IsZero() && !e.Next.After(epoch()) {
			t.Fatalf("the next change is at %v", e.Next)
		}
	})
}

// Tags are merged over the registered ones: what is set by ID counts more than what is set by
// labels, and labels keep matching the registered tags.
func TestTags(t *testing.T) {
	tags := func(pairs ...string) map[string]string {
		m := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		return m
	}
	for _, test := range []struct {
		name string
		set  []Override
		want string // of i1 and i2
	}{
		{"one more", []Override{{Instance: "i1", Tags: tags("lane", "blue")}}, "map[disk:1 lane:blue] map[disk:2]"},
		{"another value", []Override{{Instance: "i1", Tags: tags("disk", "9")}}, "map[disk:9] map[disk:2]"},
		{"removed", []Override{{Instance: "i1", Tags: tags("disk", "")}}, "map[] map[disk:2]"},
		{"by labels", []Override{{Labels: tags("version", "1"), Tags: tags("lane", "a")}, {Labels: tags("zone", "a"), Tags: tags("lane", "b")}}, "map[disk:1 lane:b] map[disk:2 lane:a]"},
		{"by ID counts more", []Override{{Instance: "i1", Tags: tags("lane", "a")}, {Labels: tags("zone", "a"), Tags: tags("lane", "b", "x", "y")}}, "map[disk:1 lane:a x:y] map[disk:2]"},
		{"labels match what is registered", []Override{{Instance: "i1", Tags: tags("disk", "2")}, {Labels: tags("disk", "2"), Tags: tags("lane", "a")}}, "map[disk:2] map[disk:2 lane:a]"},
		{"over", []Override{{Instance: "i1", Tags: tags("lane", "blue"), Until: epoch()}}, "map[disk:1] map[disk:2]"},
		{"beside a weight", []Override{{Instance: "i1", Weight: 7}, {Instance: "i1", Tags: tags("lane", "blue")}}, "map[disk:1 lane:blue] map[disk:2]"},
	} {
		o, list := Overrides{Set: test.set}, instances(2)
		if err := o.Validate(); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		e := o.Apply(list, epoch())
		if got := fmt.Sprint(e.Enabled[0].Tags, e.Enabled[1].Tags); got != test.want || fmt.Sprint(list[0].Tags) != "map[disk:1]" {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
	for _, bad := range []Override{
		{Instance: "i1", Tags: tags("zone", "b")}, {Instance: "i1", Tags: tags("", "b")}, {Instance: "i1", Weight: 5, Tags: tags("a", "b")},
		{Instance: "i1", Tags: tags("a", strings.Repeat("b", 257))}, {Instance: "i1", Ramp: policy.Duration(time.Second), Tags: tags("a", "b")},
	} {
		if bad.Validate() == nil {
			t.Errorf("%+v is valid", bad)
		}
	}
	off := Overrides{Set: []Override{{Instance: "i1", State: Disabled}, {Instance: "i1", Tags: tags("lane", "blue")}}}
	if e := off.Apply(instances(2), epoch()); fmt.Sprint(e.Tags) != "map[i1:map[disk:1 lane:blue]]" || len(e.Enabled) != 1 {
		t.Errorf("of an instance that is disabled: %+v", e)
	}
	if o := (Override{Instance: "i1", Tags: tags("b", "2", "a", ""), By: "ann"}); o.String() != "tags a=, b=2 by ann" {
		t.Error(o.String())
	}
}
