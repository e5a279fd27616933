package balance

import (
	"reflect"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
)

// Reports of load build no pickers of policies that don't look at them.
func TestReportsBuildNoPickers(t *testing.T) {
	full := func() []tandem.Instance {
		return []tandem.Instance{{
			ID: "a", Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: "x"}}, Services: []string{"S"}, Weight: 7, Version: "1",
			Zone: "z", Group: "g", Tags: tags("k", "v"), Started: time.Unix(1, 0), Incarnation: "i",
			Position: &tandem.Position{Latitude: 1}, Load: &tandem.Load{Rate: 1},
		}, {ID: "b"}}
	}
	for _, tc := range []struct {
		policy Policy
		builds int // for a report
	}{{RingHash(), 0}, {Route(Zone("z", SlowStart(1, Sticky(P2C())))), 0}, {LeastReported(), 1}, {Route(Zone("", LeastReported())), 1}} {
		count := 0
		table := NewTable(counting{tc.policy, &count})
		table.Update(full())
		before := count
		changed := full()
		changed[0].Load = &tandem.Load{Rate: 2}
		table.Update(changed)
		if count-before != tc.builds {
			t.Errorf("%s: %d pickers for a report, want %d", tc.policy.Name(), count-before, tc.builds)
		}
	}
	for i := range reflect.TypeFor[tandem.Instance]().NumField() {
		name := reflect.TypeFor[tandem.Instance]().Field(i).Name
		if name == "Load" {
			continue
		}
		count := 0
		table := NewTable(counting{RingHash(), &count})
		table.Update(full())
		changed := full()
		if f := reflect.ValueOf(&changed[0]).Elem().Field(i); f.IsZero() {
			t.Errorf("%s is not set: add it to the test and to sameButLoad", name)
		} else {
			f.SetZero()
		}
		if table.Update(changed); count != 3 {
			t.Errorf("a change of %s builds no picker", name)
		}
		if table.Update(full()[:1]); count != 4 {
			t.Errorf("nor does a shorter list, after %s", name)
		}
	}
}

// counting counts the pickers that a policy builds.
type counting struct {
	Policy
	count *int
}

func (c counting) Build(nodes []*Node) Picker {
	*c.count++
	return c.Policy.Build(nodes)
}

// Wrapping policies return the Needs of the policy that they wrap.
func TestWrappersPassOnNeeds(t *testing.T) {
	for _, wrap := range []func(Policy) Policy{
		func(p Policy) Policy { return Route(p) },
		func(p Policy) Policy { return Zone("z", p) },
		func(p Policy) Policy { return Closest(berlin, p) },
		func(p Policy) Policy { return Subset(3, "me", p) },
		func(p Policy) Policy { return Aperture(0, 2, 3, p) },
		func(p Policy) Policy { return SlowStart(1, p) },
		Sticky,
	} {
		for name, says := range map[string][2]bool{
			wrap(P2C()).Name() + " latency":           {wrap(P2C()).Needs().Latency, wrap(Random()).Needs().Latency},
			wrap(LeastLoaded()).Name() + " load":      {wrap(LeastLoaded()).Needs().Load, wrap(Random()).Needs().Load},
			wrap(LeastReported()).Name() + " reports": {wrap(LeastReported()).Needs().Reports, wrap(P2C()).Needs().Reports},
			wrap(Route(P2C())).Name() + " route":      {wrap(Route(P2C())).Needs().Route, wrap(P2C()).Name() != "route(p2c)" && wrap(P2C()).Needs().Route},
		} {
			if says != [2]bool{true, false} {
				t.Errorf("%s: %v", name, says)
			}
		}
		if n := len(wrap(Subset(1, "me", P2C())).Needs().Narrow(named(0, 10))); n != 1 {
			t.Errorf("%s: narrowed to %d", wrap(P2C()).Name(), n)
		}
	}
}
