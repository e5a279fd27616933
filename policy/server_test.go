package policy_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/policy"
)

const wholeServer = `{
	"kind": "server", "version": "7",
	"default": {"maxDeadline": "5s", "perCaller": {"rate": 100.5, "burst": 20}, "deny": ["mallory"]},
	"methods": {
		"Orders.*": {"allow": ["web", "spiffe://shop/*"], "criticality": "critical"},
		"Orders.Report": {"limit": {"atOnce": 2}, "criticality": "sheddable", "allow": [], "perTenant": {"rate": 1}}
	}
}`

func TestParseServer(t *testing.T) {
	p, err := policy.ParseServer([]byte(wholeServer))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	again, err := policy.ParseServer(text)
	if err != nil || !reflect.DeepEqual(p, again) {
		t.Errorf("what was written differs: %s, %v", text, err)
	}
	if policy.VersionOf([]byte(wholeServer)) != "7" || !policy.IsServer(text) || policy.IsServer([]byte(whole)) {
		t.Error("the kinds are mixed up")
	}
	report, get, other := p.For("Orders.Report"), p.For("Orders.Get"), p.For("Other.Do")
	if report.Criticality != "sheddable" || report.Allow == nil || len(report.Allow) != 0 || report.PerCaller.Burst != 20 || report.Limit.AtOnce != 2 {
		t.Errorf("%+v", report)
	}
	if get.Criticality != "critical" || len(get.Allow) != 2 || get.Limit != nil || time.Duration(get.MaxDeadline) != 5*time.Second {
		t.Errorf("%+v", get)
	}
	if other.Allow != nil || len(other.Deny) != 1 {
		t.Errorf("%+v", other)
	}
}

func TestParseServerRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:                                    `kind is ""`,
		`{"kind": "client"}`:                    `kind is "client"`,
		`{"default": {"timeout": "1s"}}`:        `kind is ""`,
		`{"kind": "server", "retryBudget": {}}`: `unknown field`,
		`{"kind": "server", "default": {"criticality": "high"}}`:                    `default.criticality: "high" is none of`,
		`{"kind": "server", "default": {"allow": "web"}}`:                           `want a list`,
		`{"kind": "server", "default": {"allow": null}}`:                            `null`,
		`{"kind": "server", "default": {"allow": ["a*b"]}}`:                         `default.allow[0]: "a*b"`,
		`{"kind": "server", "default": {"deny": [""]}}`:                             `default.deny[0]: empty`,
		`{"kind": "server", "default": {"deny": [7]}}`:                              `want a string`,
		`{"kind": "server", "default": {"limit": {"burst": 1}}}`:                    `default.limit.burst: it has no effect without a rate`,
		`{"kind": "server", "default": {"limit": {"rate": -1}}}`:                    `default.limit.rate`,
		`{"kind": "server", "default": {"perCaller": {"atOnce": -1}}}`:              `default.perCaller.atOnce`,
		`{"kind": "server", "default": {"perTenant": {"rate": 1e300}}}`:             `default.perTenant.rate`,
		`{"kind": "server", "default": {"maxDeadline": "48h"}}`:                     `default.maxDeadline`,
		`{"kind": "server", "methods": {"A": {}}}`:                                  `is not Service.Method`,
		`{"kind": "server", "methods": {"A.B": {"limit": {"rate": 1, "rate": 2}}}}`: `twice`,
		`{"kind": "server"} x`:                                                      `kind is ""`,
	} {
		if _, err := policy.ParseServer([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if _, err := policy.Parse([]byte(wholeServer)); err == nil || !strings.Contains(err.Error(), "kind") {
		t.Errorf("a client takes the rules of a server: %v", err)
	}
}

func TestAdmits(t *testing.T) {
	m := policy.ServerMethod{Allow: []string{"web", "batch-*"}, Deny: []string{"batch-bad", "evil*"}}
	for caller, want := range map[string]bool{"web": true, "webs": false, "batch-": true, "batch-1": true, "batch-bad": false, "": false, "Web": false} {
		if ok, why := m.Admits(caller); ok != want || why == "" {
			t.Errorf("%q: %v, %s", caller, ok, why)
		}
	}
	for _, c := range []struct {
		m    policy.ServerMethod
		want bool
	}{
		{policy.ServerMethod{}, true},
		{policy.ServerMethod{Allow: []string{}}, false},
		{policy.ServerMethod{Allow: []string{"*"}}, true},
		{policy.ServerMethod{Deny: []string{"*"}}, false},
		{policy.ServerMethod{Deny: []string{"x*"}}, true},
	} {
		if ok, why := c.m.Admits(""); ok != c.want {
			t.Errorf("a caller without a name by %+v: %v, %s", c.m, ok, why)
		}
	}
}

func TestServerSchemaIsPublished(t *testing.T) {
	path := filepath.Join("..", "docs", "server-policy.schema.json")
	if *write {
		if err := os.WriteFile(path, policy.ServerSchema(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	published, err := os.ReadFile(path)
	if err != nil || string(published) != string(policy.ServerSchema()) {
		t.Errorf("docs/server-policy.schema.json is stale; run go generate ./policy (%v)", err)
	}
}

// What is taken is taken again when it is written, and nothing panics.
func FuzzParseServer(f *testing.F) {
	f.Add([]byte(wholeServer))
	f.Add([]byte(`{"kind":"server","default":{"allow":[]}}`))
	f.Add([]byte(`{"kind":"server","methods":{"A.*":{"deny":["*"],"limit":{"rate":0.1}}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := policy.ParseServer(text)
		if err != nil {
			return
		}
		again, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := policy.ParseServer(again); err != nil {
			t.Errorf("%s is taken, but not when written again as %s: %v", text, again, err)
		}
		m := p.For("A.B")
		m.Admits("someone")
		m.Capped(time.Now(), time.Time{})
	})
}
