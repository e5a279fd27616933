package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/admin"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/override"
	"github.com/tandem-rpc/tandem/plugin/trace"
	"github.com/tandem-rpc/tandem/registry/file"
	"github.com/tandem-rpc/tandem/server"
)

// cluster is three servers of a shop and one of a bank in a registry of files, and a console.
type cluster struct {
	t       *testing.T
	base    string
	target  string // of the shop's list
	calls   [3]atomic.Int64
	console *Console
	at      net.Addr
	http    *http.Client
	cookie  *http.Cookie
}

// newCluster starts a cluster. cfg is the console's Config, without sources.
func newCluster(t *testing.T, cfg Config) *cluster {
	t.Helper()
	c := &cluster{t: t, base: filepath.ToSlash(t.TempDir()), http: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	c.target = "file://" + c.base + "/shop"
	for i := range c.calls {
		c.serve("shop", fmt.Sprint("s", i), "Shop.Buy", func() { c.calls[i].Add(1) }, nil)
	}
	a := admin.New(admin.WithAuthorizer(func(context.Context) (admin.Role, error) { return admin.Operator, nil }))
	shop, err := a.Dial(c.target, client.WithResolver("file", file.Resolver()), client.WithPlugins(trace.New()))
	c.check(err)
	t.Cleanup(func() { _ = shop.Close() })
	c.serve("bank", "b0", "Bank.Pay", func() { _ = shop.Call(context.Background(), "Shop.Buy", nil, nil) }, a)
	cfg.Sources = []Registry{{Target: "file://" + c.base, Resolver: file.Resolver()}}
	c.console, err = New(cfg)
	c.check(err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	c.check(err)
	c.at = ln.Addr()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.console.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		c.http.CloseIdleConnections()
		if err := errors.Join(<-done, c.console.Close()); err != nil {
			t.Error(err)
		}
	})
	return c
}

func (c *cluster) check(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// serve starts a server with one method, in the list of that name.
func (c *cluster) serve(list, id, method string, do func(), a *admin.Admin) {
	c.t.Helper()
	if a == nil {
		a = admin.New()
	}
	r := file.New(filepath.FromSlash(c.base + "/" + list))
	srv := server.New(server.WithPlugins(trace.New(), a), server.WithRegistrar(r, tandem.Instance{ID: id, Zone: "z1", Version: "1.2"}))
	c.check(errors.Join(a.Register(srv), srv.RegisterFunc(method, do)))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	c.check(err)
	done := make(chan error, 1)
	go func() { done <- srv.ServeListener(ln) }()
	c.t.Cleanup(func() {
		_ = srv.Close()
		<-done
	})
}

// login exchanges the token for a cookie.
func (c *cluster) login() {
	c.t.Helper()
	resp, err := c.http.Get(c.console.URL(c.at))
	c.check(err)
	c.check(resp.Body.Close())
	if len(resp.Cookies()) != 1 {
		c.t.Fatalf("the token is answered %s, with cookies %v", resp.Status, resp.Cookies())
	}
	c.cookie = resp.Cookies()[0]
}

// post calls a method of the console.
func (c *cluster) post(name string, req, resp any, change ...func(*http.Request)) (status int) {
	c.t.Helper()
	body, err := json.Marshal(req)
	c.check(err)
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, "http://"+c.at.String()+"/api/"+name, bytes.NewReader(body))
	c.check(err)
	if c.cookie != nil {
		r.AddCookie(c.cookie)
	}
	for _, f := range change {
		f(r)
	}
	answer, err := c.http.Do(r)
	c.check(err)
	text, err := io.ReadAll(answer.Body)
	c.check(errors.Join(err, answer.Body.Close()))
	if resp != nil {
		if err := json.Unmarshal(text, resp); err != nil {
			c.t.Fatalf("%s is answered %s: %s", name, answer.Status, text)
		}
	}
	return answer.StatusCode
}

// until waits until a condition holds.
func (c *cluster) until(what string, holds func() bool) {
	c.t.Helper()
	for end := time.Now().Add(15 * time.Second); !holds(); {
		if time.Now().After(end) {
			c.t.Fatalf("in vain: %s", what)
		}
		time.Sleep(20 * time.Millisecond) // it is asked again
	}
}

// load calls the shop, by way of the bank, until the test ends.
func (c *cluster) load() {
	bank, err := client.Dial("file://"+c.base+"/bank", client.WithResolver("file", file.Resolver()))
	c.check(err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_ = bank.Call(ctx, "Bank.Pay", nil, nil)
			time.Sleep(time.Millisecond) // some hundred calls a second
		}
	}()
	c.t.Cleanup(func() {
		cancel()
		<-done
		_ = bank.Close()
	})
}

func TestScreens(t *testing.T) {
	c := newCluster(t, Config{})
	c.login()
	c.load()
	var session Session
	if status := c.post("Session", nil, &session); status != http.StatusOK || !session.ReadOnly || session.Role != "developer" || len(session.Sources) != 1 {
		t.Errorf("%d: %+v", status, session)
	}
	var o Overview
	c.until("rates of all instances", func() bool {
		o = Overview{}
		c.post("Overview", nil, &o)
		return o.Answering == 4 && o.Rate > 10
	})
	if o.Services != 2 || o.Instances["enabled"] != 4 || len(o.Top) != 2 || o.Silent != 0 {
		t.Errorf("%+v", o)
	}
	var services Services
	if c.post("Services", ServicesRequest{Filter: "SHOP z1 state:enabled"}, &services); len(services.Services) != 1 || services.Services[0].Service != "Shop" || services.Services[0].Instances["enabled"] != 3 {
		t.Errorf("%+v", services)
	}
	for _, nothing := range []string{"state:disabled", "shop z2"} {
		services = Services{}
		if c.post("Services", ServicesRequest{Filter: nothing}, &services); len(services.Services) != 0 {
			t.Errorf("%s: %+v", nothing, services)
		}
	}
}

func TestDetails(t *testing.T) {
	c := newCluster(t, Config{})
	c.login()
	c.load()
	var s Service
	c.until("the bank as a consumer of the shop", func() bool {
		s = Service{}
		c.post("Service", ServiceRequest{List: c.target, Service: "Shop"}, &s)
		return len(s.Consumers) == 1
	})
	if len(s.Rows) != 3 || !s.Rows[0].Admin || len(s.Methods) != 1 || s.Methods[0].Calls == 0 || s.Consumers[0].Instance != "b0" || s.Consumers[0].Client != c.target {
		t.Errorf("%+v", s)
	}
	var in Instance
	c.until("the bank's rates", func() bool {
		in = Instance{}
		c.post("Instance", InstanceRequest{List: "file://" + c.base + "/bank", Instance: "b0"}, &in)
		return len(in.Clients) == 1 && in.Clients[0].Rate > 0
	})
	if in.Info == nil || len(in.Methods) != 1 || len(in.Clients) != 1 || in.Version != "1.2" {
		t.Errorf("%+v", in)
	}
	if in.Connections == nil || in.Connections.Total == 0 || in.Calls == nil || in.Limits == nil || len(in.Settings) == 0 || in.Error != "" {
		t.Errorf("the inside: %+v", in)
	}
	if in.Clients[0].State == nil || in.Clients[0].Explanation == nil || in.Clients[0].Rate == 0 {
		t.Errorf("its client: %+v", in.Clients[0])
	}
	if status := c.post("Instance", InstanceRequest{List: c.target, Instance: "no"}, nil); status != http.StatusNotFound {
		t.Errorf("an instance that does not exist: %d", status)
	}
}

func TestPolicies(t *testing.T) {
	c := newCluster(t, Config{Writer: "ann"})
	c.login()
	c.until("the list", func() bool { return c.post("Policy", PolicyRequest{List: c.target}, nil) == http.StatusOK })
	var v PolicyView
	c.post("Policy", PolicyRequest{List: c.target}, &v)
	if !strings.HasSuffix(v.Key, "/policies/shop") || v.Text != "" || v.Revision != "0" || len(v.Schema) == 0 {
		t.Errorf("at first: %+v", v)
	}
	const quick, slow = "methods:\n  Shop.Buy:\n    timeout: 1s\n", `{"methods":{"Shop.Buy":{"timeout":"9s"}}}`
	var dry PolicyView
	if c.post("PutPolicy", PutPolicyRequest{List: c.target, Text: quick, DryRun: true}, &dry); dry.Policy == nil || !strings.HasPrefix(dry.Text, "{") {
		t.Errorf("a dry run: %+v", dry)
	}
	for _, text := range []string{quick, slow} {
		if status := c.post("PutPolicy", PutPolicyRequest{List: c.target, Text: text, Base: v.Revision, Why: "a test"}, &v); status != http.StatusOK {
			t.Errorf("%d: %+v", status, v)
		}
	}
	if v.Revision != "2" || len(v.History) != 2 || v.History[0].By != "ann" || !strings.Contains(v.Text, "9s") || v.Rollout == nil {
		t.Errorf("%+v", v)
	}
	for name, bad := range map[string]struct {
		req  PutPolicyRequest
		want int
	}{
		"an old base":  {PutPolicyRequest{Text: quick, Base: "1"}, http.StatusConflict},
		"not a policy": {PutPolicyRequest{Text: `{"methods": 7}`, Base: "2"}, http.StatusBadRequest},
		"not YAML":     {PutPolicyRequest{Text: "\t- :", Base: "2"}, http.StatusBadRequest},
	} {
		bad.req.List = c.target
		if status := c.post("PutPolicy", bad.req, nil); status != bad.want {
			t.Errorf("%s: %d", name, status)
		}
	}
	if status := c.post("Restore", RestoreRequest{List: c.target, Kind: "policy", Revision: "1", Why: "back"}, nil); status != http.StatusOK {
		t.Errorf("restoring: %d", status)
	}
	if c.post("Policy", PolicyRequest{List: c.target}, &v); v.Revision != "3" || !strings.Contains(v.Text, "1s") {
		t.Errorf("restored: %+v", v)
	}
}

func TestTopology(t *testing.T) {
	c := newCluster(t, Config{})
	c.login()
	c.load()
	var g Topology
	c.until("an edge", func() bool {
		g = Topology{}
		return c.post("Topology", TopologyRequest{Center: "Shop", Hops: 1}, &g) == http.StatusOK && len(g.Edges) == 1 && g.Edges[0].Rate > 0
	})
	if len(g.Nodes) != 2 || g.Edges[0].From != "Bank" || g.Edges[0].To != "Shop" || g.Edges[0].Protocols[0] != "tandem" || g.Cut != 0 {
		t.Errorf("%+v", g)
	}
	if status := c.post("Topology", TopologyRequest{Center: "No"}, nil); status != http.StatusNotFound {
		t.Errorf("a service that does not exist: %d", status)
	}
	// A chain, seen from its end.
	chain := &graph{map[string]*Node{}, map[edgeKey]*Edge{}}
	for i := range 500 {
		chain.edge("hub", fmt.Sprintf("s%03d", i))
	}
	chain.edge("s000", "far")
	if near, cut := chain.near("hub", 1); len(near) != maxNodes || cut != 301 || near["far"] {
		t.Errorf("%d near, %d cut", len(near), cut)
	}
	if near, _ := chain.near("far", 1); len(near) != 2 {
		t.Errorf("near the far end: %v", near)
	}
}

func TestAsk(t *testing.T) {
	c := newCluster(t, Config{})
	c.login()
	c.load()
	bank := "file://" + c.base + "/bank"
	var e client.Explanation
	c.until("the explanation", func() bool {
		req := json.RawMessage(`{"client":"` + c.target + `","method":"Shop.Buy"}`)
		ok := c.post("Ask", AskRequest{List: bank, Instance: "b0", Method: "Explain", Request: req}, &e) == http.StatusOK
		return ok && len(e.Attempts) == 1 && len(e.Attempts[0].Instances) == 3 // all have registered
	})
	if e.Method != "Shop.Buy" || len(e.Attempts) != 1 || len(e.Attempts[0].Instances) != 3 {
		t.Errorf("%+v", &e)
	}
	var p admin.Profile
	if c.post("Ask", AskRequest{List: bank, Instance: "b0", Method: "Profile", Request: json.RawMessage(`{"kind":"goroutine","text":true}`)}, &p); !bytes.Contains(p.Data, []byte("goroutine profile")) {
		t.Errorf("%+v", p)
	}
	for _, refused := range []AskRequest{
		{List: bank, Instance: "b0", Method: "Register"}, {List: bank, Instance: "b0", Method: "SetLogLevel"},
		{List: bank, Instance: "other", Method: "Explain"}, {List: "tcp://127.0.0.1:1", Instance: "x", Method: "Explain"},
	} {
		if status := c.post("Ask", refused, nil); status == http.StatusOK {
			t.Errorf("%+v was passed on", refused)
		}
	}
}

func TestTap(t *testing.T) {
	c := newCluster(t, Config{})
	c.login()
	c.load()
	c.until("all instances", func() bool {
		var s Service
		return c.post("Service", ServiceRequest{List: c.target, Service: "Shop"}, &s) == http.StatusOK && len(s.Rows) == 3
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	body, err := json.Marshal(TapRequest{List: c.target, Instances: []string{"s0", "s2"}, Tap: admin.TapRequest{Method: "Shop.*"}})
	c.check(err)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.at.String()+"/api/Tap", bytes.NewReader(body))
	c.check(err)
	r.AddCookie(c.cookie)
	resp, err := c.http.Do(r)
	c.check(err)
	lines, seen := json.NewDecoder(resp.Body), map[string]int{}
	for seen["s0"] == 0 || seen["s2"] == 0 {
		var e TapEvent
		c.check(lines.Decode(&e))
		if seen[e.Instance]++; e.Method != "Shop.Buy" || e.Failure != "" || e.Instance == "s1" {
			t.Errorf("%+v", e)
		}
	}
	cancel()
	c.check(resp.Body.Close())
	if status := c.post("Tap", TapRequest{List: c.target, Tap: admin.TapRequest{Payload: true}}, nil); status != http.StatusForbidden {
		t.Errorf("a developer taps messages: %d", status)
	}
}

func TestEdit(t *testing.T) {
	c := newCluster(t, Config{Writer: "ann"})
	c.login()
	c.load()
	disable := func(ids ...string) (set []override.Override) {
		for _, id := range ids {
			set = append(set, override.Override{Instance: id, State: override.Disabled})
		}
		return set
	}
	var e Edit
	c.until("figures", func() bool {
		e = Edit{}
		c.post("Edit", EditRequest{List: c.target, Set: disable("s1"), DryRun: true}, &e)
		return e.Share > 0.2 && e.Share < 0.5
	})
	if len(e.Rows) != 1 || e.Rows[0].State != "disabled" || e.Left != 2 || e.Empties || e.Revision != "" {
		t.Errorf("a dry run: %+v", e)
	}
	if status := c.post("Edit", EditRequest{List: c.target, Set: disable("s1"), Why: "a test"}, &e); status != http.StatusOK || e.Revision != "1" {
		t.Errorf("%d: %+v", status, e)
	}
	still := func(i int) func() bool {
		return func() bool {
			before := c.calls[i].Load()
			time.Sleep(300 * time.Millisecond) // some fifty calls
			return c.calls[i].Load() == before
		}
	}
	began := time.Now()
	c.until("s1 gets no calls", still(1))
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("s1 got no more calls after %v", took)
	}
	var s Service
	c.until("the state is shown", func() bool {
		s = Service{}
		c.post("Service", ServiceRequest{List: c.target, Service: "Shop"}, &s)
		return s.Rows[1].State == "disabled"
	})
	if s.Rows[1].Why != "disabled by ann: a test" || s.Overrides != 1 {
		t.Errorf("%+v", s.Rows[1])
	}
	// A change that leaves nothing needs the list's name.
	if status := c.post("Edit", EditRequest{List: c.target, Set: disable("s0", "s2")}, nil); status != http.StatusConflict {
		t.Errorf("the last instances were disabled: %d", status)
	}
	// A confirmation of something else allows nothing, either.
	l, err := c.console.list(c.target)
	c.check(err)
	ed, err := l.editor()
	c.check(err)
	wrong := EditRequest{List: c.target, Set: disable("s0", "s2"), Confirm: "another list"}
	if _, err := c.console.write(t.Context(), User{Name: "ann"}, ed, &wrong, wrong.Confirm == l.name); !errors.Is(err, override.ErrEmpty) {
		t.Errorf("with another name typed: %v", err)
	}
	var changes Changes
	if c.post("Changes", ChangesRequest{List: c.target}, &changes); len(changes.Changes) != 1 || changes.Changes[0].By != "ann" || changes.Changes[0].What != "s1: disabled by ann: a test" {
		t.Errorf("%+v", changes)
	}
	// What is set ends again, and comes back.
	if status := c.post("Edit", EditRequest{List: c.target, Clear: []string{"s1"}}, nil); status != http.StatusOK {
		t.Errorf("clearing: %d", status)
	}
	c.until("s1 gets calls again", func() bool { return !still(1)() })
	if status := c.post("Restore", RestoreRequest{List: c.target, Kind: "overrides", Revision: "1"}, nil); status != http.StatusOK {
		t.Errorf("restoring: %d", status)
	}
	c.until("s1 gets no calls again", still(1))
	if status := c.post("Restore", RestoreRequest{List: c.target, Kind: "overrides", Revision: "99"}, nil); status != http.StatusNotFound {
		t.Errorf("restoring what is not kept: %d", status)
	}
}

// Who has no session, or may only look, can't change anything; nor can pages of other sites.
func TestAccess(t *testing.T) {
	c := newCluster(t, Config{})
	edit := EditRequest{List: c.target, Set: []override.Override{{Instance: "s1", State: override.Disabled}}}
	if status := c.post("Overview", nil, nil); status != http.StatusUnauthorized {
		t.Errorf("without a session: %d", status)
	}
	head, err := c.http.Head(c.console.URL(c.at))
	c.check(err)
	c.check(head.Body.Close())
	if head.StatusCode != http.StatusOK || len(head.Cookies()) != 0 {
		t.Errorf("HEAD is answered %s, with cookies %v", head.Status, head.Cookies())
	}
	c.login() // the token still works
	again, err := c.http.Get(c.console.URL(c.at))
	c.check(err)
	c.check(again.Body.Close())
	if again.StatusCode != http.StatusForbidden {
		t.Errorf("the token works twice: %s", again.Status)
	}
	c.until("the list", func() bool { return c.post("Edit", edit, nil) != http.StatusNotFound })
	if status := c.post("Edit", edit, nil); status != http.StatusForbidden {
		t.Errorf("a viewer wrote: %d", status)
	}
	forged := *c.cookie
	forged.Value = strings.Repeat("A", len(forged.Value))
	for name, change := range map[string]func(*http.Request){
		"another site":        func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") },
		"another site, quiet": func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"rebinding":           func(r *http.Request) { r.Host = "evil.example" },
		"a forged cookie": func(r *http.Request) {
			r.Header.Del("Cookie")
			r.AddCookie(&forged)
		},
	} {
		if status := c.post("Overview", nil, nil, change); status != http.StatusForbidden && status != http.StatusMisdirectedRequest && status != http.StatusUnauthorized {
			t.Errorf("%s: %d", name, status)
		}
	}
	get, err := c.http.Get("http://" + c.at.String() + "/api/Overview")
	c.check(err)
	c.check(get.Body.Close())
	if get.StatusCode == http.StatusOK || !strings.Contains(get.Header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("GET is answered %s, with the policy %q", get.Status, get.Header.Get("Content-Security-Policy"))
	}
}

func TestAuthorizer(t *testing.T) {
	c := newCluster(t, Config{Authorizer: func(r *http.Request) (User, error) {
		if name, _, ok := r.BasicAuth(); ok {
			return User{name, admin.Viewer}, nil
		}
		return User{}, errors.New("who are you?")
	}})
	var e struct{ Code, Message string }
	if status := c.post("Session", nil, &e); status != http.StatusUnauthorized || e.Message != "who are you?" {
		t.Errorf("%d: %+v", status, e)
	}
	var s Session
	if c.post("Session", nil, &s, func(r *http.Request) { r.SetBasicAuth("bob", "x") }); s.Name != "bob" || s.Role != "viewer" || s.ReadOnly {
		t.Errorf("%+v", s)
	}
}

func TestConfig(t *testing.T) {
	if _, err := New(Config{}); err == nil {
		t.Error("a console of nothing")
	}
	if _, err := New(Config{Sources: []Registry{{Target: "file:///x"}}}); err == nil {
		t.Error("a registry without a resolver")
	}
	c, err := New(Config{Sources: []Registry{{Target: "file://" + filepath.ToSlash(t.TempDir()), Resolver: file.Resolver()}}})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Serve(t.Context(), ln); err == nil || !strings.Contains(err.Error(), "Authorizer") {
		t.Errorf("without an Authorizer it serves everybody: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
