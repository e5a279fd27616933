package served

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/policy"
)

func compiled(t *testing.T, text string, before *Rules) *Rules {
	t.Helper()
	p, err := policy.ParseServer([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return New(p, "v", before)
}

// A bucket lets through its burst, then its rate, and says how long to wait.
func TestBucket(t *testing.T) {
	now := time.Unix(1000, 0)
	b := newBucket(policy.Limit{Rate: 10, Burst: 3})
	for i := range 3 {
		if ok, _ := b.enter(now); !ok {
			t.Fatalf("call %d of the burst", i)
		}
	}
	ok, wait := b.enter(now)
	if ok || wait != 100*time.Millisecond {
		t.Errorf("%v, wait %v", ok, wait)
	}
	if ok, _ := b.enter(now.Add(-time.Hour)); ok {
		t.Error("an earlier time has filled it")
	}
	if ok, _ := b.enter(now.Add(wait)); !ok {
		t.Error("it is refused after the wait")
	}
	served := 0
	for range 1000 {
		now = now.Add(10 * time.Millisecond)
		if ok, _ := b.enter(now); ok {
			served++
		}
	}
	if served < 98 || served > 100 {
		t.Errorf("%d calls in 10 s at 10 a second", served)
	}
}

// Further keys than there is room for replace idle ones; those with calls in flight stay, and the
// rest shares one bucket.
func TestKeyedIsBounded(t *testing.T) {
	now := time.Unix(1000, 0)
	k := newKeyed(policy.Limit{AtOnce: 1})
	var held []*bucket
	for i := range maxKeys {
		b, ok, _ := k.enter(keyOf(true, fmt.Sprint(i)), now)
		if !ok {
			t.Fatalf("key %d", i)
		}
		held = append(held, b)
	}
	b, ok, _ := k.enter(keyOf(true, "one"), now)
	if _, second, _ := k.enter(keyOf(true, "two"), now); !ok || second {
		t.Errorf("without room: %v, %v", ok, second)
	}
	b.leave()
	held[7].leave()
	if _, ok, _ := k.enter(keyOf(true, "two"), now); !ok || len(k.byKey) != maxKeys || k.byKey[keyOf(true, "7")] != nil {
		t.Errorf("%v, %d keys", ok, len(k.byKey))
	}
	if a, b := keyOf(true, strings.Repeat("x", 300)), keyOf(true, strings.Repeat("x", 301)); a == b || len(a.text) > longestKey {
		t.Error("long keys")
	}
	if keyOf(true, "10.0.0.1") == keyOf(false, "10.0.0.1") {
		t.Error("a caller can take the limit of an address by its name")
	}
}

// A refused call takes nothing from the limits that had let it through.
func TestARefusedCallCountsNowhere(t *testing.T) {
	now := time.Unix(1000, 0)
	m := compiled(t, `{"kind": "server", "methods": {"A.B": {"limit": {"atOnce": 1}, "perCaller": {"atOnce": 2, "rate": 1, "burst": 2}, "perTenant": {"atOnce": 2}}}}`, nil).Of("A.B")
	call := &tandem.Call{Identity: "ann"}
	first, err := m.Enter(now, call, "t")
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if _, err := m.Enter(now, call, "t"); tandem.CodeOf(err) != tandem.ResourceExhausted || !strings.Contains(err.Error(), "all callers") {
			t.Fatal(err)
		}
	}
	first.Leave()
	if _, err := m.Enter(now, call, "t"); err != nil {
		t.Error(err)
	}
	if _, err := m.Enter(now, call, "t"); !strings.Contains(err.Error(), "all callers") && !strings.Contains(err.Error(), `caller "ann"`) {
		t.Error(err)
	}
}

// A new version keeps the counts of limits that stay as they were, and begins others anew.
func TestNewRulesKeepCounts(t *testing.T) {
	now := time.Unix(1000, 0)
	const text = `{"kind": "server", "methods": {"A.B": {"limit": {"atOnce": 1}}}}`
	first := compiled(t, text, nil)
	place, err := first.Of("A.B").Enter(now, &tandem.Call{}, "")
	if err != nil {
		t.Fatal(err)
	}
	same := compiled(t, text, first)
	if _, err := same.Of("A.B").Enter(now, &tandem.Call{}, ""); err == nil {
		t.Error("the call in flight is forgotten")
	}
	if _, err := compiled(t, strings.Replace(text, ": 1", ": 2", 1), same).Of("A.B").Enter(now, &tandem.Call{}, ""); err != nil {
		t.Error(err)
	}
	place.Leave()
	if _, err := same.Of("A.B").Enter(now, &tandem.Call{}, ""); err != nil {
		t.Errorf("a call of the old version has not left the new one: %v", err)
	}
}

type named string

func (n named) String() string     { return string(n) }
func (n named) TenantName() string { return "of " + string(n) }

func TestCallerAndTenant(t *testing.T) {
	b, _ := tandem.ParseBaggage("tenant=seven")
	for _, c := range []struct {
		identity     any
		name, tenant string
	}{{nil, "", "seven"}, {"ann", "ann", "seven"}, {named("bob"), "bob", "of bob"}, {42, "", "seven"}} {
		call := &tandem.Call{Identity: c.identity, Peer: &tandem.Peer{}}
		if name, tenant := CallerOf(call), TenantOf(call, b); name != c.name || tenant != c.tenant {
			t.Errorf("%v: %q, %q", c.identity, name, tenant)
		}
	}
	for address, want := range map[string]string{"10.1.2.3:80": "10.1.2.3", "[2001:db8:1:2:3::4]:80": "2001:db8:1:2::/64"} {
		a, err := net.ResolveTCPAddr("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if got := addressOf(&tandem.Call{Peer: &tandem.Peer{Addr: a}}); got != want {
			t.Errorf("%s counts as %s", address, got)
		}
	}
}

// The class of a rule is found for methods that were called, and others.
func TestClass(t *testing.T) {
	r := compiled(t, `{"kind": "server", "methods": {"A.*": {"criticality": "sheddable"}, "A.B": {"criticality": "critical"}}}`, nil)
	for range 2 {
		for name, want := range map[string]tandem.Criticality{"A.B": tandem.Critical, "A.C": tandem.Sheddable, "X.Y": ""} {
			if got := r.Class(name); got != want {
				t.Errorf("%s: %s", name, got)
			}
		}
		r.Of("A.B")
	}
}
