package authz_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/plugin"
	"github.com/tandem-rpc/tandem/plugin/auth"
	"github.com/tandem-rpc/tandem/plugin/authz"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ada is a caller with every kind of claim.
func ada() *auth.Principal {
	return &auth.Principal{Name: "ada", Tenant: "blue", Issuer: "https://login.example", Claims: map[string]any{
		"scope": "read write", "groups": []any{"staff", json.Number("7"), map[string]any{}}, "level": json.Number("3"), "mfa": true,
		"kubernetes.io": map[string]any{"namespace": "prod"}, "https://shop.example/role": "clerk", "nothing": nil,
	}}
}

// A rule fits if each field that is set fits.
func TestEachFieldOfARule(t *testing.T) {
	ada, cart := ada(), &auth.Principal{Name: "spiffe://shop/web/cart", Issuer: "shop"}
	for _, c := range []struct {
		rule   string // fields besides the name
		caller *auth.Principal
		method string
		fits   bool
	}{
		{`"callers": ["*"], "methods": ["*"]`, ada, "A.B", true},
		{`"callers": ["*"], "methods": ["*"]`, nil, "A.B", false},
		{`"anyone": true, "methods": ["*"]`, nil, "A.B", true},
		{`"callers": ["ada"], "methods": ["A.B"]`, ada, "A.B", true},
		{`"callers": ["Ada"], "methods": ["A.B"]`, ada, "A.B", false},
		{`"callers": ["ada"], "methods": ["A.B"]`, ada, "a.b", false},
		{`"callers": ["ada"], "methods": ["A.*"]`, ada, "A.B", true},
		{`"callers": ["ada"], "methods": ["A.*"]`, ada, "A.B.C", false},
		{`"callers": ["ada"], "methods": ["A.B.*"]`, ada, "A.B.C", true},
		{`"callers": ["ada"], "methods": ["A.*"]`, ada, "AB.C", false},
		{`"callers": ["spiffe://shop/web/*"], "methods": ["*"]`, cart, "A.B", true},
		{`"callers": ["spiffe://shop/web/*"], "methods": ["*"]`, &auth.Principal{Name: "spiffe://shop/website/x"}, "A.B", false},
		{`"callers": ["spiffe://shop/web/*"], "methods": ["*"]`, &auth.Principal{Name: "spiffe://shop/web/"}, "A.B", false},
		{`"callers": ["*"], "methods": ["*"], "issuers": ["shop"]`, cart, "A.B", true},
		{`"callers": ["*"], "methods": ["*"], "issuers": ["shop"]`, ada, "A.B", false},
		{`"callers": ["*"], "methods": ["*"], "tenants": ["blue"]`, ada, "A.B", true},
		{`"callers": ["*"], "methods": ["*"], "tenants": ["blue"]`, cart, "A.B", false},
		{claim(`"scope": {"contains": "read"}`), ada, "A.B", true},
		{claim(`"scope": {"contains": "rea"}`), ada, "A.B", false},
		{claim(`"scope": {"equals": "read write"}`), ada, "A.B", true},
		{claim(`"scope": {"equals": "read"}`), ada, "A.B", false},
		{claim(`"groups": {"contains": "staff"}`), ada, "A.B", true},
		{claim(`"groups": {"contains": "7"}`), ada, "A.B", true},
		{claim(`"groups": {"equals": "staff"}`), ada, "A.B", false},
		{claim(`"groups": {"contains": "sta"}`), ada, "A.B", false},
		{claim(`"level": {"in": ["2", "3"]}`), ada, "A.B", true},
		{claim(`"level": {"in": ["4"]}`), ada, "A.B", false},
		{claim(`"mfa": {"equals": "true"}`), ada, "A.B", true},
		{claim(`"kubernetes.io/namespace": {"equals": "prod"}`), ada, "A.B", true},
		{claim(`"https://shop.example/role": {"equals": "clerk"}`), ada, "A.B", true},
		{claim(`"nothing": {"equals": "null"}`), ada, "A.B", false},
		{claim(`"missing": {"equals": "x"}`), ada, "A.B", false},
		{claim(`"scope": {"contains": "read"}, "level": {"equals": "4"}`), ada, "A.B", false},
		{claim(`"scope": {"contains": "read"}`), cart, "A.B", false},
	} {
		r := parse(t, `{"allow": [{"name": "r", `+c.rule+`}]}`)
		q := &authz.Request{Caller: c.caller, Method: c.method}
		if d := r.Decide(q); d.Allowed != c.fits || (d.Rule == "r") != c.fits || (len(r.Misses(q)) == 0) != c.fits {
			t.Errorf("%s: %+v, misses %v; want %v", c.rule, d, r.Misses(q), c.fits)
		}
		a, err := authz.Fixed(r)
		if err != nil {
			t.Fatal(err)
		}
		var identity any
		if c.caller != nil {
			identity = c.caller
		}
		if err := ask(t, a, c.method, identity); (err == nil) != c.fits {
			t.Errorf("%s: the plugin says %v, want %v", c.rule, err, c.fits)
		}
	}
}

func claim(conditions string) string {
	return `"callers": ["*"], "methods": ["*"], "claims": {` + conditions + `}`
}

func parse(t *testing.T, text string) *authz.Rules {
	t.Helper()
	r, err := authz.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// What no rule allows is denied, and a rule that denies wins.
func TestDenyWinsAndIsTheDefault(t *testing.T) {
	r := parse(t, `{
		"allow": [{"name": "all", "callers": ["*"], "methods": ["A.*"]}],
		"deny": [{"name": "no drop", "anyone": true, "methods": ["A.Drop"], "metadata": {"x-env": {"equals": "prod"}}}]
	}`)
	for _, c := range []struct {
		method   string
		metadata tandem.Metadata
		want     authz.Decision
	}{
		{"A.Get", nil, authz.Decision{Allowed: true, Rule: "all"}},
		{"A.Drop", nil, authz.Decision{Allowed: true, Rule: "all"}},
		{"A.Drop", tandem.Metadata{"x-env": {"prod"}}, authz.Decision{Rule: "no drop"}},
		{"A.Drop", tandem.Metadata{"x-env": {"test", "prod"}}, authz.Decision{Rule: "no drop"}},
		{"B.Get", nil, authz.Decision{}},
	} {
		if d := r.Decide(&authz.Request{Caller: ada(), Method: c.method, Metadata: c.metadata}); d != c.want {
			t.Errorf("%s with %v: %+v, want %+v", c.method, c.metadata, d, c.want)
		}
	}
	if d := new(authz.Rules).Decide(&authz.Request{Caller: ada(), Method: "A.Get"}); d.Allowed {
		t.Error("rules without any rule allow a call")
	}
}

// A rule that allows by metadata needs all values of a key to fit: of several, another reader may
// take another one.
func TestSeveralValuesAreNotAllowedByOne(t *testing.T) {
	r := parse(t, `{"allow": [{"name": "test", "callers": ["*"], "methods": ["*"], "metadata": {"X-Env": {"equals": "test"}}}]}`)
	for want, values := range map[bool][]string{true: {"test", "test"}, false: {"test", "prod"}} {
		if d := r.Decide(&authz.Request{Caller: ada(), Method: "A.B", Metadata: tandem.Metadata{"x-env": values}}); d.Allowed != want {
			t.Errorf("%v: %+v", values, d)
		}
	}
}

// What can't be meant is an error that names the rule and the field.
func TestParseRefuses(t *testing.T) {
	const ok = `"callers": ["*"], "methods": ["*"]`
	for text, want := range map[string]string{
		`{`:                         "unexpected EOF",
		`[]`:                        "want an object",
		`{} {}`:                     "after the end",
		`{"allow": null}`:           "allow: want a list",
		`{"Allow": []}`:             `unknown field "Allow"`,
		`{"allow": [], "allow":[]}`: "occurs twice",
		`{"allow": [{` + ok + `}]}`: "needs a name",
		`{"allow": [{"name": "a\nb", ` + ok + `}]}`:                                                                "control characters",
		`{"allow": [{"name": "a", ` + ok + `}], "deny": [{"name": "a", ` + ok + `}]}`:                              "another rule has this name",
		`{"allow": [{"name": "a", "methods": ["*"]}]}`:                                                             "want callers",
		`{"allow": [{"name": "a", "callers": [], "methods": ["*"]}]}`:                                              "want callers",
		`{"allow": [{"name": "a", "anyone": true, ` + ok + `}]}`:                                                   "want callers",
		`{"allow": [{"name": "a", "callers": ["*"]}]}`:                                                             "want methods",
		`{"allow": [{"name": "a", "callers": ["sp*ffe"], "methods": ["*"]}]}`:                                      `callers: "sp*ffe"`,
		`{"allow": [{"name": "a", "callers": ["spiffe://shop*"], "methods": ["*"]}]}`:                              "new part of the name",
		`{"allow": [{"name": "a", "callers": [""], "methods": ["*"]}]}`:                                            "0 bytes",
		`{"allow": [{"name": "a", "callers": ["*"], "methods": ["A*"]}]}`:                                          `methods: "A*"`,
		`{"allow": [{"name": "a", "callers": ["*"], "methods": ["*.B"]}]}`:                                         `methods: "*.B"`,
		`{"allow": [{"name": "a", "callers": ["*"], "methods": ["A.B*"]}]}`:                                        `methods: "A.B*"`,
		`{"allow": [{"name": "a", "callers": "*", "methods": ["*"]}]}`:                                             "callers: want a list",
		`{"allow": [{"name": "a", "anyone": true, "methods": ["*"], "claims": {"x": {"equals": "y"}}}]}`:           "anyone",
		`{"allow": [{"name": "a", ` + ok + `, "claims": {"x": {}}}]}`:                                              "want one of equals, in and contains",
		`{"allow": [{"name": "a", ` + ok + `, "claims": {"x": {"equals": "y", "contains": "z"}}}]}`:                "want one of equals, in and contains",
		`{"allow": [{"name": "a", ` + ok + `, "claims": {"x": {"equals": true}}}]}`:                                "equals: want a string",
		`{"allow": [{"name": "a", ` + ok + `, "claims": {"x": {"equals": "` + strings.Repeat("y", 2000) + `"}}}]}`: "more than 1024 bytes",
		`{"allow": [` + strings.Repeat(`{"name": "a", `+ok+`},`, 1000) + `{"name": "a", ` + ok + `}]}`:             "1001 rules",
		strings.Repeat(" ", 1<<20) + "{}":                                                                          "limit",
	} {
		if _, err := authz.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.200s: %v, want %q", text, err, want)
		}
	}
}

// FuzzParse: rules that Parse takes mean the same when they are written again, and no decision panics.
func FuzzParse(f *testing.F) {
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := authz.Parse(text)
		if err != nil {
			return
		}
		again, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		s, err := authz.Parse(again)
		if err != nil {
			t.Fatalf("%s became %s: %v", text, again, err)
		}
		for _, caller := range []*auth.Principal{nil, ada()} {
			q := &authz.Request{Caller: caller, Method: "A.B", Metadata: tandem.Metadata{"k": {"v"}}}
			if r.Decide(q) != s.Decide(q) {
				t.Errorf("%s and %s decide differently", text, again)
			}
		}
	})
}

// source is one whose texts the test sends.
type source chan any

func (s source) Watch(ctx context.Context, update func(text []byte, err error)) error {
	for {
		select {
		case v := <-s:
			if err, bad := v.(error); bad {
				update(nil, err)
			} else {
				update([]byte(v.(string)), nil)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Rules change while calls are made. Those that are not valid, or can't be read, leave the ones
// before in force, and the status and the log say so.
func TestInvalidRulesKeepTheOldOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		src := make(source, 1)
		src <- `{"version": "1", "allow": [{"name": "a", "callers": ["*"], "methods": ["A.B"]}]}`
		a, err := authz.Follow(src, authz.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		check := func(want tandem.Code, version, problem string, failures uint64) {
			t.Helper()
			synctest.Wait()
			err := ask(t, a, "A.B", "ada")
			s := a.Status()
			if tandem.CodeOf(err) != want || s.Version != version || !strings.Contains(s.Error, problem) || (s.Error == "") != (problem == "") || s.Failures != failures {
				t.Errorf("%v, status %+v; want %v under %q with the error %q", err, s, want, version, problem)
			}
		}
		check(tandem.OK, "1", "", 0)
		src <- `{"version": "2", "allow": [{"name": "a"}]}`
		check(tandem.OK, "1", "want callers", 1)
		src <- errors.New("the disk is gone")
		check(tandem.OK, "1", "the disk is gone", 2)
		src <- `{"version": "3"}`
		check(tandem.PermissionDenied, "3", "", 2)
		if text := log.String(); strings.Count(text, "were not changed") != 2 || !strings.Contains(text, "version=3") {
			t.Errorf("the log says %s", text)
		}
	})
}

// ask passes the plugin as a server would, for a method that exists.
func ask(t *testing.T, a *authz.Authorizer, method string, identity any) error {
	t.Helper()
	p, ok := a.ForMethod(plugin.Method{Name: method}).(plugin.BeforeRequestHeader)
	if !ok {
		t.Fatal("the plugin has no point before the header")
	}
	return p.BeforeRequestHeader(t.Context(), &tandem.Call{Method: method, Identity: identity})
}

// First rules that can't be followed are an error at once, or after some time without any.
func TestFirstRulesMustBeValid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for want, first := range map[string]any{"want callers": `{"allow": [{"name": "a"}]}`, "no such": errors.New("no such file")} {
			src := make(source, 1)
			src <- first
			if _, err := authz.Follow(src); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
		began := time.Now()
		if _, err := authz.Follow(make(source)); err == nil || time.Since(began) != 10*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// Whatever the type of an identity, its name counts; methods that do not exist are denied to those who may not
// call the service.
func TestIdentitiesAndUnknownMethods(t *testing.T) {
	a, err := authz.Fixed(parse(t, `{"allow": [{"name": "a", "callers": ["ada"], "methods": ["A.*"]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		identity any
		want     tandem.Code
	}{
		{"ada", tandem.OK},
		{ada(), tandem.OK},
		{named("ada"), tandem.OK},
		{"bob", tandem.PermissionDenied},
		{nil, tandem.PermissionDenied},
		{42, tandem.PermissionDenied},
	} {
		if err := ask(t, a, "A.B", c.identity); tandem.CodeOf(err) != c.want {
			t.Errorf("%v: %v, want %v", c.identity, err, c.want)
		}
	}
	unknown := a.ForMethod(plugin.Method{}).(plugin.BeforeRequestHeader)
	for method, want := range map[string]tandem.Code{"A.Nope": tandem.OK, "B.Nope": tandem.PermissionDenied} {
		if err := unknown.BeforeRequestHeader(t.Context(), &tandem.Call{Method: method, Identity: "ada"}); tandem.CodeOf(err) != want {
			t.Errorf("%s: %v, want %v", method, err, want)
		}
	}
}

type named string

func (n named) String() string { return string(n) }

func Example() {
	rules, _ := authz.Parse([]byte(`{
		"allow": [{"name": "cart reads", "callers": ["spiffe://shop/cart"], "methods": ["Stock.Get"]}],
		"deny": [{"name": "closed", "anyone": true, "methods": ["Admin.*"]}]
	}`))
	cart := &auth.Principal{Name: "spiffe://shop/cart"}
	for _, method := range []string{"Stock.Get", "Stock.Set", "Admin.Stop"} {
		d := rules.Decide(&authz.Request{Caller: cart, Method: method})
		fmt.Printf("%s %v by %q\n", method, d.Allowed, d.Rule)
	}
	// Output:
	// Stock.Get true by "cart reads"
	// Stock.Set false by ""
	// Admin.Stop false by "closed"
}

func BenchmarkDecide(b *testing.B) {
	rules := &authz.Rules{}
	for i := range 100 {
		rules.Allow = append(rules.Allow, authz.Rule{Name: fmt.Sprint(i), Callers: []string{fmt.Sprintf("spiffe://shop/%d", i)}, Methods: []string{"A.*"}})
	}
	a, err := authz.Fixed(rules)
	if err != nil {
		b.Fatal(err)
	}
	guard := a.ForMethod(plugin.Method{Name: "A.B"}).(plugin.BeforeRequestHeader)
	call := &tandem.Call{Method: "A.B", Identity: &auth.Principal{Name: "spiffe://shop/99"}}
	for b.Loop() {
		if err := guard.BeforeRequestHeader(b.Context(), call); err != nil {
			b.Fatal(err)
		}
	}
}
