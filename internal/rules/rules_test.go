package rules

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/resilience"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// builtin returns the Base of a client without options.
func builtin() Base {
	return Base{
		Balancer: balance.Route(balance.P2C()), FailMode: tandem.Failfast, Timeout: 5 * time.Second, Retries: 2,
		BudgetShare: 0.1, BudgetRate: 10, Ejection: new(Ejection),
	}
}

const (
	sec = time.Second
	dur = policy.Duration(time.Second)
)

// Every field of a policy overrides its option, and fields that it leaves open keep
// the options' values.
func TestRulesTakeEveryField(t *testing.T) {
	o := builtin()
	o.Breaker = &resilience.BreakerConfig{Window: 90 * sec, Probes: 91, Pause: 92 * sec}
	o.Ejection = &Ejection{Outliers: resilience.OutlierConfig{Every: 93 * sec, Window: 94 * sec}, Breaker: resilience.BreakerConfig{FailureRate: 0.95, Pause: 96 * sec}}
	p := &policy.Policy{
		Balancer: &policy.Balancer{Pick: "least-loaded"},
		Ejection: &policy.Ejection{
			Window: dur, MinCalls: 2, FailureRate: 0.3, LatencyFactor: 4, Consecutive: 5, Pause: 6 * dur, MaxPause: 7 * dur, MaxShare: 0.8,
		},
		Budget:  &policy.Budget{Share: 0.9, PerSecond: 10},
		Default: policy.Method{Timeout: 11 * dur, Breaker: &policy.Breaker{Pause: 12 * dur}},
		Methods: map[string]policy.Method{"A.B": {
			AttemptTimeout: 13 * dur, FailMode: "fork", Retries: new(4), Idempotent: new(true),
			Breaker: &policy.Breaker{Window: 14 * dur, MinCalls: 15, FailureRate: 0.16, Consecutive: 17, MaxPause: 18 * dur},
		}},
	}
	r := New(&o, p, "v")
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"ejection", *r.Ejection, Ejection{
			Outliers: resilience.OutlierConfig{Every: 93 * sec, Window: sec, MinCalls: 2, FailureRate: 0.3, LatencyFactor: 4, MaxShare: 0.8},
			Breaker:  resilience.BreakerConfig{FailureRate: 0.95, Consecutive: 5, Pause: 6 * sec, MaxPause: 7 * sec},
		}},
		{"of it", []any{r.MaxShare, r.Every}, []any{0.8, 93 * sec}},
		{"budget", []any{r.BudgetShare, r.BudgetRate, r.Version}, []any{0.9, 10, "v"}},
		{"said for all", []any{r.Said, New(&o, nil, "").Said, New(&o, nil, "").Of("A.B").Said}, []any{SaidBalancer | SaidEjection | SaidBudget, Said(0), Said(0)}},
		{"aware", []any{r.Breakers, r.Timed, r.Loaded}, []any{true, true, true}},
		{"default", *r.Of("Other.Do"), Rule{
			Timeout: 11 * sec, FailMode: tandem.Failfast, Retries: 2, Said: SaidTimeout | SaidBreaker,
			Breaker: &resilience.BreakerConfig{Window: 90 * sec, Probes: 91, Pause: 12 * sec},
		}},
		{"the method", *r.Of("A.B"), Rule{
			Timeout: 11 * sec, AttemptTimeout: 13 * sec, FailMode: tandem.Fork, Retries: 4, Idempotent: true,
			Said: SaidTimeout | SaidAttemptTimeout | SaidFailMode | SaidRetries | SaidIdempotent | SaidBreaker,
			Breaker: &resilience.BreakerConfig{
				Window: 14 * sec, MinCalls: 15, FailureRate: 0.16, Consecutive: 17, Pause: 92 * sec, MaxPause: 18 * sec, Probes: 91,
			},
		}},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.what, c.got, c.want)
		}
	}
	if o.Breaker.Pause != 92*sec || o.Ejection.Outliers.Window != 94*sec {
		t.Error("the options were changed")
	}
}

// Timed and Loaded are set only if a balancer, a breaker or the ejection needs latencies or loads.
func TestRulesTimedAndLoaded(t *testing.T) {
	for text, want := range map[string][]any{
		`{"ejection": {"off": true}, "balancer": {"pick": "random"}}`:                                                 {false, false, false},
		`{"ejection": {"off": true}, "balancer": {"pick": "p2c"}}`:                                                    {false, true, false},
		`{"ejection": {"off": true}, "balancer": {"pick": "random"}, "methods": {"A.*": {"breaker": {}}}}`:            {true, true, false},
		`{"ejection": {"off": true}, "balancer": {"pick": "random"}, "methods": {"A.*": {"breaker": {"off": true}}}}`: {false, false, false},
		`{"balancer": {"pick": "random"}}`:                                                                            {false, true, false},
		`{"ejection": {"off": true}, "balancer": {"pick": "least-loaded"}}`:                                           {false, false, true},
	} {
		p, err := policy.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		o := builtin()
		r := New(&o, p, "")
		if got := []any{r.Breakers, r.Timed, r.Loaded}; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: breakers, timed, loaded are %v, want %v", text, got, want)
		}
	}
}

// stuck returns a table with the balancer of a policy, updated with each of the lists in
// turn.
func stuck(b policy.Balancer, lists ...[]tandem.Instance) *balance.Table {
	o := builtin()
	table := balance.NewTable(New(&o, &policy.Policy{Balancer: &b}, "").Balancer)
	for _, list := range lists {
		table.Update(list)
	}
	return table
}

// counts makes calls with the keys k0, k1 … and returns how many each instance got.
func counts(table *balance.Table, calls, keys int) map[string]int {
	counts := map[string]int{}
	for i := range calls {
		n := table.Pick(&tandem.Call{HashKey: fmt.Sprint("k", i%keys)}, func(*balance.Node) bool { return true })
		counts[n.Instance.ID]++
	}
	return counts
}

// A key stays where it is though its zone has less than its part of the instances.
func TestStickyWithZone(t *testing.T) {
	table := stuck(policy.Balancer{Pick: "p2c", Sticky: true, Zone: "z"},
		[]tandem.Instance{{ID: "a", Zone: "z"}, {ID: "b", Zone: "y"}, {ID: "c", Zone: "y"}, {ID: "d", Zone: "y"}})
	if got := counts(table, 200, 1); len(got) != 1 {
		t.Errorf("the calls of one key are at %v", got)
	}
}

// New keys go to a new instance as rarely as slow start allows.
func TestStickyWithSlowStart(t *testing.T) {
	var old []tandem.Instance
	for i := range 9 {
		old = append(old, tandem.Instance{ID: fmt.Sprint("old", i)})
	}
	table := stuck(policy.Balancer{Pick: "p2c", Sticky: true, SlowStart: 30 * dur}, old, append(old, tandem.Instance{ID: "new"}))
	if got := counts(table, 5000, 5000); got["new"] > 150 {
		t.Errorf("a new one of ten got %d of 5,000 keys", got["new"])
	}
}
