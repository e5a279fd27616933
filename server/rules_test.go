package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/plugin/auth"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/history"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// ruled is a server with rules, whose callers are named by their token.
type ruled struct {
	*server.Server

	network tandem.Transport
	free    chan struct{} // a call of Orders.Wait returns for each value
}

func newRuled(t *testing.T, r server.Rules) *ruled {
	t.Helper()
	s := &ruled{network: transport.NewMemory(), free: make(chan struct{})}
	named := auth.New(auth.Bearer(func(_ context.Context, token string) (any, error) { return token, nil }), auth.Public("Open.*"))
	s.Server = server.New(server.WithTransport("mem", s.network), server.WithPlugins(named), server.WithRules(r),
		server.WithBaggage(server.Baggage{Keys: []string{"tenant"}, Networks: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}}))
	wait := func(ctx context.Context, _ *string) (*string, error) {
		select {
		case <-s.free:
			return new("done"), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	echo := func(_ context.Context, in *string) (*string, error) { return in, nil }
	for name, f := range map[string]func(context.Context, *string) (*string, error){
		"Orders.Get": echo, "Orders.Put": echo, "Orders.Wait": wait, "Open.Look": echo,
	} {
		if err := server.Handle(s.Server, name, f); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Alias("Shop", "Orders"); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve("mem", "s") }()
	t.Cleanup(func() {
		_ = s.Close()
		<-ended
	})
	return s
}

func (s *ruled) dial(t *testing.T, caller string, opts ...client.Option) *client.Client {
	t.Helper()
	c, err := client.Dial("mem://s", append(opts, client.WithTransport("mem", s.network), client.WithPlugins(auth.Token("Bearer", caller)))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// codeOfCall is the code of a call, or a message if the error claims the wrong thing about execution.
func codeOfCall(t *testing.T, c *client.Client, method string, opts ...tandem.CallOption) string {
	t.Helper()
	err := c.Call(t.Context(), method, new("x"), new(string), opts...)
	var e *tandem.Error
	if errors.As(err, &e) && (e.Code == tandem.PermissionDenied || e.Code == tandem.ResourceExhausted) && !e.NotExecuted {
		return "may have executed: " + e.Error()
	}
	return tandem.CodeOf(err).String()
}

func rulesOf(t *testing.T, text string) *policy.Server {
	t.Helper()
	p, err := policy.ParseServer([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Rules say which callers may call which methods, by their own names and by aliases.
func TestRulesSayWhoMayCall(t *testing.T) {
	s := newRuled(t, server.Rules{First: rulesOf(t, `{"kind": "server",
		"default": {"allow": ["staff*"], "deny": ["staff-mallory"]},
		"methods": {"Orders.Put": {"allow": ["clerk"]}, "Open.*": {"allow": ["*"]}}}`)})
	for _, c := range []struct{ caller, method, want string }{
		{"staff-ann", "Orders.Get", "ok"},
		{"staff-ann", "Orders.Put", "permission denied"},
		{"staff-ann", "Shop.Put", "permission denied"},
		{"clerk", "Orders.Put", "ok"},
		{"clerk", "Shop.Put", "ok"},
		{"clerk", "Orders.Get", "permission denied"},
		{"staff-mallory", "Orders.Get", "permission denied"},
		{"anybody", "Open.Look", "ok"},
		{"anybody", "Orders.Nope", "permission denied"},
		{"staff-ann", "Orders.Nope", "unimplemented"},
	} {
		if got := codeOfCall(t, s.dial(t, c.caller), c.method); !strings.EqualFold(got, c.want) {
			t.Errorf("%s calls %s: %s, want %s", c.caller, c.method, got, c.want)
		}
	}
	if _, n := s.Rules(); n.Denied != 5 {
		t.Errorf("%+v", n)
	}
}

// Limits hold for all callers of a method, for each caller and for each tenant, and what a refused
// call took is given back.
func TestRulesLimitCalls(t *testing.T) {
	s := newRuled(t, server.Rules{First: rulesOf(t, `{"kind": "server", "methods": {
		"Orders.Get": {"perCaller": {"rate": 0.001, "burst": 2}, "limit": {"rate": 0.001, "burst": 3}},
		"Orders.Put": {"perTenant": {"rate": 0.001, "burst": 1}}}}`)})
	ann, bob := s.dial(t, "ann"), s.dial(t, "bob")
	for i, want := range []string{"ok", "ok", "resource exhausted"} {
		if got := codeOfCall(t, ann, "Orders.Get"); !strings.EqualFold(got, want) {
			t.Errorf("call %d of ann: %s", i, got)
		}
	}
	for i, want := range []string{"ok", "resource exhausted"} { // the limit of all
		if got := codeOfCall(t, bob, "Orders.Get"); !strings.EqualFold(got, want) {
			t.Errorf("call %d of bob: %s", i, got)
		}
	}
	for _, c := range []struct{ tenant, want string }{{"t1", "ok"}, {"t1", "resource exhausted"}, {"t2", "ok"}, {"", "ok"}, {"", "ok"}} {
		var opts []tandem.CallOption
		if c.tenant != "" {
			opts = append(opts, client.Metadata(tandem.BaggageKey, "tenant="+c.tenant))
		}
		if got := codeOfCall(t, ann, "Orders.Put", opts...); !strings.EqualFold(got, c.want) {
			t.Errorf("tenant %q: %s, want %s", c.tenant, got, c.want)
		}
	}
	if _, n := s.Rules(); n.Limited != 3 {
		t.Errorf("%+v", n)
	}
}

// A limit of calls at once counts those in flight, and a call never runs longer than the cap.
func TestRulesBoundCallsAtOnceAndDeadlines(t *testing.T) {
	s := newRuled(t, server.Rules{First: rulesOf(t, `{"kind": "server", "methods": {
		"Orders.Wait": {"limit": {"atOnce": 1}, "maxDeadline": "300ms"}}}`)})
	c := s.dial(t, "ann")
	running := c.Go(t.Context(), "Orders.Wait", new("x"), new(string), nil, client.Timeout(time.Minute))
	for len(s.Running(1)) == 0 {
		time.Sleep(time.Millisecond) // until the call runs; the server has no event for that
	}
	if got := codeOfCall(t, c, "Orders.Wait"); !strings.EqualFold(got, "resource exhausted") {
		t.Errorf("a second call: %s", got)
	}
	began := time.Now()
	if p := <-running.Done; tandem.CodeOf(p.Error) != tandem.DeadlineExceeded || time.Since(began) > 20*time.Second {
		t.Errorf("a call with a deadline of a minute: %v after %v", p.Error, time.Since(began))
	}
	go func() { s.free <- struct{}{} }()
	if got := codeOfCall(t, c, "Orders.Wait"); !strings.EqualFold(got, "ok") {
		t.Errorf("after the first call: %s", got)
	}
	if _, n := s.Rules(); n.Capped != 2 || n.Limited != 1 {
		t.Errorf("%+v", n)
	}
}

// Rules of a registry are followed: a new document applies, an invalid one leaves the old one in
// force, both are reported, and an earlier one can be restored. Limits that stay keep their counts.
func TestRulesAreFollowed(t *testing.T) {
	documents := registry.NewMemory()
	src := policy.FromRegistry(documents, "/rules/orders")
	store := history.Store{Documents: documents, Key: "/rules/orders"}
	s := newRuled(t, server.Rules{Source: src, Name: "one", First: rulesOf(t, `{"kind": "server", "default": {"allow": []}}`)})
	ann := s.dial(t, "ann")
	if got := codeOfCall(t, ann, "Orders.Get"); !strings.EqualFold(got, "permission denied") {
		t.Errorf("before the first document: %s", got)
	}
	put := func(text string) {
		t.Helper()
		if _, err := history.PutServer(t.Context(), store, policy.Change{By: "test"}, rulesOf(t, text)); err != nil {
			t.Fatal(err)
		}
	}
	reported := func(want string) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) { // until it is reported
			list, err := src.(policy.Reports).Applied(t.Context())
			if err == nil && len(list) == 1 && fmt.Sprintf("%s %s %v", list[0].Client, list[0].InForce, list[0].Error != "") == want {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("reported %+v, %v; want %s", list, err, want)
			}
		}
	}
	limited := `{"kind": "server", "methods": {"Orders.Get": {"limit": {"rate": 0.001, "burst": 1}, "allow": %s}}}`
	put(fmt.Sprintf(limited, `["ann"]`))
	reported("one r1 false")
	if got := codeOfCall(t, ann, "Orders.Get"); !strings.EqualFold(got, "ok") {
		t.Errorf("by revision 1: %s", got)
	}
	put(fmt.Sprintf(limited, `["*"]`))
	reported("one r2 false")
	if got := codeOfCall(t, s.dial(t, "bob"), "Orders.Get"); !strings.EqualFold(got, "resource exhausted") {
		t.Errorf("a new document has emptied a limit that stays: %s", got)
	}
	now, err := documents.ReadDocument(t.Context(), store.Key)
	if err != nil {
		t.Fatal(err)
	}
	if err := documents.SwapDocument(t.Context(), store.Key, now, []byte(`{"default": {"retries": 1}}`)); err != nil { // a client's policy
		t.Fatal(err)
	}
	reported("one r2 true")
	if applied, _ := s.Rules(); applied.InForce != "r2" || !strings.Contains(applied.Error, `"server"`) {
		t.Errorf("%+v", applied)
	}
	if _, err := history.RestorePolicy(t.Context(), store, policy.Change{By: "test"}, 1); err != nil {
		t.Fatal(err)
	}
	reported("one r4 false")
	if got := codeOfCall(t, s.dial(t, "bob"), "Orders.Get"); !strings.EqualFold(got, "permission denied") {
		t.Errorf("by revision 1 again: %s", got)
	}
}

// Rules in a file are followed, too.
func TestRulesInAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.json")
	if err := os.WriteFile(path, []byte(`{"kind": "server", "version": "7", "default": {"deny": ["ann"]}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newRuled(t, server.Rules{Source: policy.File(path)})
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) { // until the file is read
		if applied, _ := s.Rules(); applied.InForce == "7" {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("%+v", applied)
		}
	}
	if got := codeOfCall(t, s.dial(t, "ann"), "Orders.Get"); !strings.EqualFold(got, "permission denied") {
		t.Error(got)
	}
}

// Options that can't work are errors.
func TestWithRulesRefuses(t *testing.T) {
	for _, r := range []server.Rules{{}, {First: &policy.Server{}}, {First: &policy.Server{Kind: "server", Default: policy.ServerMethod{Criticality: "high"}}}} {
		if err := server.New(server.WithRules(r)).Serve("tcp", "127.0.0.1:0"); err == nil || !strings.Contains(err.Error(), "WithRules") {
			t.Errorf("%+v: %v", r, err)
		}
	}
}
