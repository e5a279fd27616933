package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/admin"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/override"
	"github.com/tandem-rpc/tandem/registry/file"
	"github.com/tandem-rpc/tandem/server"
)

// still reports whether a server of the shop gets no calls within some time.
func (c *cluster) still(i int) bool {
	before := c.calls[i].Load()
	time.Sleep(300 * time.Millisecond) // some fifty calls
	return c.calls[i].Load() == before
}

// breakerOf names the breaker that the bank's client has for a server of the shop.
func (c *cluster) breakerOf(id string) BreakerOf {
	return BreakerOf{List: "file://" + c.base + "/bank", Process: "b0", Client: c.target, Instance: id}
}

func TestResilience(t *testing.T) {
	c := newCluster(t, Config{Writer: "ann"})
	c.login()
	c.load()
	var r Resilience
	read := func() *Resilience {
		r = Resilience{}
		c.post("Resilience", ResilienceRequest{List: c.target}, &r)
		return &r
	}
	c.until("what the bank knows of the shop", func() bool { return len(read().Circuits) == 3 && r.Clients[0].Rate > 0 && r.Circuits[0].Calls > 0 })
	c.until("each server of the shop gets its share", func() bool { // the balancer may have found one slow at first
		return !slices.ContainsFunc(read().Circuits, func(ci Circuit) bool { return ci.Share < 0.1 || ci.Share > 0.6 })
	})
	c.wantCalm(&r)
	var f Force
	req := ForceRequest{List: c.target, Breakers: []BreakerOf{c.breakerOf("s1")}, State: "open", For: time.Minute, Why: "a test", DryRun: true}
	if c.post("ForceBreaker", req, &f); f.Left != 2 || f.Share < 0.1 || f.Share > 0.6 || len(f.Empties)+len(f.Changes) != 0 {
		t.Errorf("a dry run: %+v", f)
	}
	req.DryRun = false
	f = Force{}
	if status := c.post("ForceBreaker", req, &f); status != http.StatusOK || len(f.Changes) != 1 || len(f.Circuits) != 1 || f.Circuits[0].Breaker != "open" || f.Circuits[0].Reason != "ann: a test" {
		t.Fatalf("%d: %+v", status, f)
	}
	c.until("s1 gets no calls", func() bool { return c.still(1) })
	if ci := read().Circuits[0]; ci.ID != "s1" || ci.Forced.IsZero() || ci.Since.IsZero() || ci.ForcedBy == "" {
		t.Errorf("the worst is %+v", ci)
	}
	var all Resilience
	if c.post("Resilience", ResilienceRequest{}, &all); len(all.Lists) != 2 || all.Lists[0].List != c.target || all.Lists[0].Forced != 1 || all.Lists[0].Clients != 1 || all.Lists[0].Instances != 3 {
		t.Errorf("%+v", all)
	}
	c.refusesForces()
	if status := c.post("Undo", UndoRequest{Changes: f.Changes, Why: "back"}, nil); status != http.StatusOK {
		t.Errorf("undo: %d", status)
	}
	c.until("s1 gets calls again", func() bool { return !c.still(1) })
	if status := c.post("Undo", UndoRequest{Changes: f.Changes, Why: "again"}, nil); status == http.StatusOK {
		t.Error("it is undone twice")
	}
}

// wantCalm checks what is known of the bank's client before anything happens.
func (c *cluster) wantCalm(r *Resilience) {
	c.t.Helper()
	if ci := r.Circuits[0]; ci.Process != "b0" || ci.Client != c.target || ci.Breaker != "closed" || ci.Share < 0.1 || ci.Share > 0.6 || len(r.Clients) != 1 || r.Silent != 0 || r.Asked != r.Processes {
		c.t.Errorf("%+v", r)
	}
	if n := len(r.Limiters); n > 0 && r.Limiters[0].Kind != "overload" {
		c.t.Errorf("limiters %+v", r.Limiters)
	}
}

// refusesForces asks for what is not allowed, while s1 is forced open.
func (c *cluster) refusesForces() {
	c.t.Helper()
	// A client is left without an instance only after the list's name was typed.
	rest := ForceRequest{List: c.target, Breakers: []BreakerOf{c.breakerOf("s0"), c.breakerOf("s2")}, State: "open", For: time.Minute}
	if status := c.post("ForceBreaker", rest, nil); status != http.StatusConflict {
		c.t.Errorf("nothing is left: %d", status)
	}
	for name, bad := range map[string]ForceRequest{
		"nothing": {List: c.target, State: "open", For: time.Minute}, "no such instance": {List: c.target, Breakers: []BreakerOf{c.breakerOf("s9")}, State: "open", For: time.Minute},
		"no time": {List: c.target, Breakers: []BreakerOf{c.breakerOf("s0")}, State: "open"}, "state": {List: c.target, Breakers: []BreakerOf{c.breakerOf("s0")}, State: "ajar", For: 1},
		"another list": {List: "file://" + c.base + "/bank", Breakers: []BreakerOf{c.breakerOf("s0")}, State: "open", For: time.Minute},
	} {
		if status := c.post("ForceBreaker", bad, nil); status < 400 || status >= 500 {
			c.t.Errorf("%s: %d", name, status)
		}
	}
}

func TestRegistry(t *testing.T) {
	c := newCluster(t, Config{Writer: "ann"})
	c.login()
	c.load()
	var r Registries
	read := func() *ListView {
		r = Registries{}
		c.post("Registry", RegistryRequest{List: c.target}, &r)
		if r.List == nil {
			return new(ListView)
		}
		return r.List
	}
	c.until("the bank as a reader", func() bool { return len(read().Readers) == 1 && r.List.Readers[0].Known == 3 })
	c.wantSource(&r.Sources[0])
	v := r.List
	if len(v.Entries) != 3 || v.Entries[1].ID != "s1" || !v.Entries[1].Listed || v.Entries[1].Zone != "z1" || v.Entries[1].Seen["ready"] != 1 || v.Error != "" {
		t.Errorf("%+v", v)
	}
	if len(v.Documents) != 2 || v.Documents[0].Kind != "overrides" || v.Documents[0].Revision != 0 || !strings.HasSuffix(v.Documents[1].Key, "/policies/shop") {
		t.Errorf("%+v", v.Documents)
	}
	// Tags that an operator sets are followed by clients that route by them.
	shop, err := client.Dial(c.target, client.WithResolver("file", file.Resolver()))
	c.check(err)
	t.Cleanup(func() { _ = shop.Close() })
	blue := client.Route(tandem.Route{Tags: map[string]string{"lane": "blue"}, Force: true})
	if err := shop.Call(t.Context(), "Shop.Buy", nil, nil, blue); err == nil {
		t.Error("a blue instance before there is one")
	}
	edit := EditRequest{List: c.target, Set: []override.Override{{Instance: "s2", Tags: map[string]string{"lane": "blue"}}}, Why: "a lane", DryRun: true}
	var e Edit
	if c.post("Edit", edit, &e); len(e.Rows) != 1 || e.Rows[0].Tags["lane"] != "blue" || e.Empties || e.Left != 3 {
		t.Errorf("a dry run: %+v", e)
	}
	edit.DryRun = false
	if status := c.post("Edit", edit, &e); status != http.StatusOK || e.Revision != "1" {
		t.Fatalf("%d: %+v", status, e)
	}
	began := time.Now()
	c.until("calls to the blue instance", func() bool { return shop.Call(t.Context(), "Shop.Buy", nil, nil, blue) == nil })
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("clients followed after %v", took)
	}
	c.until("the tags on the screen", func() bool { return len(read().Entries) == 3 && r.List.Entries[2].Effective["lane"] == "blue" })
	if e := r.List.Entries[2]; e.Tags["lane"] != "" || r.List.Documents[0].Revision != 1 || r.List.Documents[0].By != "ann" {
		t.Errorf("%+v, %+v", e, r.List.Documents[0])
	}
	undo := UndoRequest{Changes: []ChangeRef{{List: c.target, Kind: "overrides", Revision: "1"}}, Why: "back"}
	if status := c.post("Undo", undo, nil); status != http.StatusOK {
		t.Errorf("undo: %d", status)
	}
	c.until("no blue instance any more", func() bool { return shop.Call(t.Context(), "Shop.Buy", nil, nil, blue) != nil })
	if status := c.post("Undo", undo, nil); status != http.StatusConflict {
		t.Errorf("an undo of what is not the latest: %d", status)
	}
	if status := c.post("Registry", RegistryRequest{List: "file:///nowhere"}, nil); status != http.StatusNotFound {
		t.Errorf("a list that does not exist: %d", status)
	}
}

func (c *cluster) wantSource(s *RegistryView) {
	c.t.Helper()
	if s.Kind != "file" || !s.Directory || !s.Writable || s.Instances != 4 || len(s.Names) != 2 || s.Address != "" || s.Failing != 0 {
		c.t.Errorf("%+v", s)
	}
}

// What the registry has and a client does not know, and the other way round, is marked.
func TestRegistryDifferences(t *testing.T) {
	listed := []tandem.Instance{{ID: "a"}, {ID: "b"}, {ID: "c"}}
	set := &override.Overrides{Set: []override.Override{{Instance: "b", State: override.Disabled}}}
	entries := entriesOf(rowsOf("l", listed, set, time.Now()), listed, set, time.Now())
	knows := func(process string, states ...client.InstanceState) Reader {
		e := &client.Explanation{Attempts: []client.Attempt{{Instances: states}}}
		return readerOf(&inside{row: InstanceRow{Instance: tandem.Instance{ID: process}}}, &admin.Client{Name: "l", Explanation: e}, entries)
	}
	state := func(id, unusable string) client.InstanceState {
		return client.InstanceState{ID: id, Unusable: unusable, Breaker: "closed"}
	}
	one := knows("p1", state("a", ""), state("b", "disabled by ann"), client.InstanceState{ID: "gone", Suspect: "the registry has lost it", Breaker: "closed"})
	two := knows("p2", state("a", "not connected"), state("b", ""), state("c", "not in this client's subset"))
	if !slices.Equal(one.Missing, []string{"c"}) || !slices.Equal(one.Extra, []string{"gone"}) || !one.Override || one.Known != 3 {
		t.Errorf("p1: %+v", one)
	}
	if len(two.Missing)+len(two.Extra) != 0 || two.Override {
		t.Errorf("p2: %+v", two)
	}
	if e := entries["c"]; e.Missing != 1 || e.Unseen[0] != "p1" || e.Seen["unused"] != 1 {
		t.Errorf("c: %+v", e)
	}
	if e := entries["gone"]; e.Listed || e.State != "gone" || e.Seen["suspect"] != 1 {
		t.Errorf("gone: %+v", e)
	}
	if e := entries["b"]; e.Seen["withheld"] != 1 || e.Seen["ready"] != 1 || e.State != "disabled" {
		t.Errorf("b: %+v", e)
	}
}

// audited is a cluster in which users have changed things, and were refused.
type audited struct {
	*cluster
	force Force

	mu   sync.Mutex
	told []Record // by Config.Audit
}

// basicUser returns the name that as has given a request.
func basicUser(r *http.Request) string {
	name, _, _ := r.BasicAuth()
	return name
}

func newAudited(t *testing.T) *audited {
	t.Helper()
	a := new(audited)
	users := map[string]User{"ann": {"ann", admin.Operator}, "bob": {"bob", admin.Viewer}}
	a.cluster = newCluster(t, Config{
		Audit: func(r Record) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.told = append(a.told, r)
		},
		Authorizer: func(r *http.Request) (User, error) {
			if u, ok := users[basicUser(r)]; ok {
				return u, nil
			}
			return User{}, errors.New("who are you?")
		},
	})
	a.load()
	disable := EditRequest{List: a.target, Set: []override.Override{{Instance: "s1", State: override.Disabled}}, Why: "the disk"}
	dry := disable
	dry.DryRun = true // which the audit does not record
	a.until("the list", func() bool { return a.post("Edit", dry, nil, as("ann")) == http.StatusOK })
	if status := a.post("Edit", disable, nil, as("ann")); status != http.StatusOK {
		t.Errorf("ann: %d", status)
	}
	if status := a.post("Edit", disable, nil, as("bob")); status != http.StatusForbidden {
		t.Errorf("bob: %d", status)
	}
	for range 3 {
		a.post("Overview", nil, nil, as("eve"))
	}
	for _, timeout := range []string{"1s", "2s"} {
		var v PolicyView
		a.post("Policy", PolicyRequest{List: a.target}, &v, as("ann"))
		put := PutPolicyRequest{List: a.target, Text: `{"methods":{"Shop.Buy":{"timeout":"` + timeout + `"}}}`, Base: v.Revision, Why: "slow disks"}
		if status := a.post("PutPolicy", put, nil, as("ann")); status != http.StatusOK {
			t.Errorf("policy: %d", status)
		}
	}
	force := ForceRequest{List: a.target, Breakers: []BreakerOf{a.breakerOf("s2")}, State: "closed", For: time.Minute, DryRun: true}
	a.until("a breaker to force", func() bool { return a.post("ForceBreaker", force, nil, as("ann")) == http.StatusOK })
	force.DryRun, force.Why = false, "to see"
	if status := a.post("ForceBreaker", force, &a.force, as("ann")); status != http.StatusOK {
		t.Errorf("forcing: %d", status)
	}
	return a
}

// read returns the rows that a user sees.
func (a *audited) read(who string, req AuditRequest) (rows []AuditRow, own bool) {
	a.t.Helper()
	var v Audit
	if status := a.post("Audit", req, &v, as(who)); status != http.StatusOK {
		a.t.Errorf("%+v: %d", req, status)
	}
	return v.Rows, v.Own
}

// kinds describes rows by their kinds and authors.
func kinds(rows []AuditRow) string {
	texts := make([]string, 0, len(rows))
	for _, r := range rows {
		texts = append(texts, r.Kind+" "+r.By)
	}
	return strings.Join(texts, ", ")
}

func TestAudit(t *testing.T) {
	a := newAudited(t)
	rows, _ := a.read("ann", AuditRequest{})
	if got := kinds(rows); got != "process ann, policy ann, policy ann, console , console bob, overrides ann" {
		t.Fatalf("%s: %+v", got, rows)
	}
	if p := rows[0]; !strings.HasPrefix(p.What, "breaker of ") || p.Why != "to see" || p.Before != "auto" || !strings.HasPrefix(p.After, "forced closed") || !p.Undo || p.From != "127.0.0.1" {
		t.Errorf("%+v", p)
	}
	if eve, bob := rows[3], rows[4]; eve.Count != 3 || eve.Error != "who are you?" || !strings.Contains(bob.Error, "operator") || bob.Why != "the disk" {
		t.Errorf("%+v, %+v", eve, bob)
	}
	if rows, own := a.read("bob", AuditRequest{}); strings.Contains(kinds(rows), "console") || own {
		t.Errorf("a viewer sees %s", kinds(rows))
	}
	for want, req := range map[string]AuditRequest{
		"overrides ann":          {Kind: "overrides"},
		"process ann":            {Text: "BREAKER s2", List: "file://" + a.base + "/bank"},
		"console bob":            {Who: "bo"},
		"policy ann, policy ann": {List: a.target, Kind: "policy", From: time.Now().Add(-time.Hour)},
		"":                       {To: time.Now().Add(-time.Hour)},
		"policy ann, console ":   {Offset: 2, Max: 2},
	} {
		if rows, _ := a.read("ann", req); kinds(rows) != want {
			t.Errorf("%+v: %s, want %s", req, kinds(rows), want)
		}
	}
	if status := a.post("Audit", AuditRequest{Max: mostRows + 1}, nil, as("ann")); status != http.StatusBadRequest {
		t.Errorf("a page that is too long: %d", status)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	done := slices.ContainsFunc(a.told, func(r Record) bool {
		return r.Method == "Edit" && r.Who == "ann" && r.Error == "" && r.Changes[0].Revision == "1"
	})
	dryTold := slices.ContainsFunc(a.told, func(r Record) bool { return r.Method == "Edit" && r.Why == "" })
	if !done || dryTold {
		t.Errorf("%+v", a.told)
	}
}

// The latest change of a document is undone, an earlier one is not.
func TestUndo(t *testing.T) {
	a := newAudited(t)
	var d Detail
	if a.post("Detail", DetailRequest{ChangeRef{List: a.target, Kind: "policy", Revision: "2"}}, &d, as("bob")); !strings.Contains(d.Before, "1s") || !strings.Contains(d.After, "2s") || d.Base != "1" || strings.Contains(d.After, "ann") {
		t.Errorf("%+v", d)
	}
	undo := func(who string, refs ...ChangeRef) int {
		return a.post("Undo", UndoRequest{Changes: refs, Why: "seen"}, nil, as(who))
	}
	if status := undo("ann", ChangeRef{List: a.target, Kind: "policy", Revision: "1"}); status != http.StatusConflict {
		t.Errorf("an earlier revision: %d", status)
	}
	if status := undo("ann", ChangeRef{List: a.target, Kind: "policy", Revision: "2"}); status != http.StatusOK {
		t.Errorf("the latest: %d", status)
	}
	var v PolicyView
	if a.post("Policy", PolicyRequest{List: a.target}, &v, as("bob")); !strings.Contains(v.Text, "1s") || v.Revision != "3" || v.History[0].By != "ann" {
		t.Errorf("%+v", v)
	}
	if status := undo("ann", ChangeRef{List: a.target, Kind: "overrides", Revision: "1"}); status != http.StatusOK {
		t.Errorf("overrides: %d", status)
	}
	a.until("s1 gets calls again", func() bool { return !a.still(1) })
	if status := undo("bob", a.force.Changes...); status != http.StatusForbidden {
		t.Errorf("a viewer undoes: %d", status)
	}
	if status := undo("ann", a.force.Changes...); status != http.StatusOK {
		t.Errorf("undo of the breaker: %d", status)
	}
	if r, _ := a.read("ann", AuditRequest{Kind: "process"}); len(r) != 2 || r[0].Undo || r[1].Undo || !r[1].Undone || r[0].By != "ann" || r[0].Why != "seen" {
		t.Errorf("%+v", r)
	}
}

// What is kept in memory is bounded, and refused logins don't displace changes.
func TestAuditIsBounded(t *testing.T) {
	var a audit
	now := time.Now()
	a.add(Record{Who: "ann", What: "the change", At: now})
	for i := range 3 * maxRefused {
		a.add(Record{From: fmt.Sprint(i), Error: "no", At: now})
	}
	if n := len(a.records()); n > maxRefused+1 || a.records()[0].What != "the change" {
		t.Errorf("%d records", n)
	}
	for range 2 * maxRecords {
		a.add(Record{Who: "ann", At: now})
	}
	if n := len(a.made); n > maxRecords {
		t.Errorf("%d changes", n)
	}
	if a.add(Record{From: fmt.Sprint(3*maxRefused - 1), Error: "no", At: now}) || !a.add(Record{From: "x", Error: "no", At: now}) {
		t.Error("the same is not counted, or another is")
	}
}

func TestLimiters(t *testing.T) {
	in := &inside{row: InstanceRow{Instance: tandem.Instance{ID: "i"}}, limits: &admin.Limits{
		Limits:   []server.Limit{{Limit: 5, Running: 2, Queue: 3, Refused: 7}, {Method: "A.B", Limit: 1}},
		Overload: []server.OverloadState{{}, {Guarding: true, Slots: 8, Refused: server.OverloadRefusals{Late: 1, Full: 2}}},
	}}
	l := limitersOf(in)
	if len(l) != 3 || l[0].Kind != "concurrency" || l[0].Refused != 7 || l[1].Kind != "method" || l[2].Kind != "overload" || l[2].Refused != 3 || !l[2].Guarding {
		t.Errorf("%+v", l)
	}
	var r ResilienceRow
	r.addServer(l)
	r.addClient(&admin.Client{State: client.State{Panicking: true, RetryBudget: 0.5, RetriesRefused: 4, Breakers: []client.MethodBreakers{{Open: 1, HalfOpen: 1}}}, Explanation: &client.Explanation{Attempts: []client.Attempt{{Instances: []client.InstanceState{
		{Breaker: "open"}, {Breaker: "half-open"}, {Breaker: "closed", Forced: time.Now()}, {Breaker: "closed", Suspect: "silent"},
	}}}}})
	if want := (ResilienceRow{Clients: 1, Open: 1, HalfOpen: 1, Forced: 1, Methods: 2, Suspect: 1, Panicking: 1, Spent: 1, RetriesRefused: 4, Guarding: 1, Refused: 10}); r != want {
		t.Errorf("%+v", r)
	}
}

func TestUndoPolicyThatWasTheFirst(t *testing.T) {
	c := newCluster(t, Config{Writer: "ann"})
	c.login()
	c.until("the list", func() bool { return c.post("Policy", PolicyRequest{List: c.target}, nil) == http.StatusOK })
	_, s, err := c.console.policyStore(c.target, "")
	c.check(err)
	put := PutPolicyRequest{List: c.target, Text: `{"methods":{"Shop.Buy":{"timeout":"1s"}}}`, Base: "0"}
	if status := c.post("PutPolicy", put, nil); status != http.StatusOK {
		t.Errorf("%d", status)
	}
	if status := c.post("Undo", UndoRequest{Changes: []ChangeRef{{List: c.target, Kind: "policy", Revision: "1"}}}, nil); status != http.StatusOK {
		t.Errorf("%d", status)
	}
	if now, err := s.Read(context.Background()); err != nil || now.Text != "" {
		t.Errorf("%+v, %v", now, err)
	}
	if what := whatOf(kindPolicy, "{}"); what != "policy of 0 methods" {
		t.Error(what)
	}
	if what := whatOf(kindPolicy, "{"); !strings.HasPrefix(what, "not a valid policy") {
		t.Error(what)
	}
}
