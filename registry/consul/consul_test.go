package consul

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/adapter"
)

// target names the list Arith of an agent.
func (s *standIn) target(options string) string {
	return "consul://" + s.Listener.Addr().String() + "/prod/Arith" + options
}

// Bad services next to a good instance are skipped and logged.
func TestHostileServices(t *testing.T) {
	t.Parallel() // it waits
	agent := newStandIn(t)
	log := &lines{}
	r := open(t, agent.target("?ttl=3s"), WithLogger(log.logger()))
	list(t, r, "good")
	for id, s := range hostile(r.own) {
		s.ID, s.Service = id, "Arith"
		agent.mu.Lock()
		agent.addLocked(s, nil, api.HealthPassing)
		agent.mu.Unlock()
	}
	e := look(t, r, "")
	e.sees("good")
	list(t, r, "second") // reads all of it again
	e.sees("good", "second")
	checkLogged(t, log, r.own)
}

// checkLogged checks that each hostile service is logged once.
func checkLogged(t *testing.T, log *lines, p place) {
	for id := range hostile(p) {
		if n := strings.Count(log.String(), "/"+id+" "); n != 1 {
			t.Errorf("%q is logged %d times:\n%.2000s", id, n, log)
		}
	}
}

// hostile returns services that are not valid instances of the list, by ID.
func hostile(p place) map[string]api.AgentService {
	raw := func(text string) api.AgentService {
		meta, tags := split(text)
		meta[pathKey] = p.path
		return api.AgentService{Meta: meta, Tags: tags}
	}
	const endpoints = `"endpoints":[{"transport":"tcp","address":"h:1"}]`
	return map[string]api.AgentService{
		"foreign":      {Meta: map[string]string{"version": "1"}},
		"nothing":      {Meta: map[string]string{pathKey: p.path}},
		"bad-json":     raw(`{"id":"x",`),
		"huge-weight":  raw(`{"id":"huge-weight","weight":1000000,` + endpoints + `}`),
		"no-endpoints": raw(`{"id":"no-endpoints"}`),
		"duplicate":    raw(`{"id":"good",` + endpoints + `}`),
		"a-megabyte":   raw(`{"id":"a-megabyte","version":"` + strings.Repeat("x", 1<<20) + `",` + endpoints + `}`),
	}
}

// TestListsAreApart registers the same ID in lists whose services have the same name,
// or names that differ only in case, which Consul ignores.
func TestListsAreApart(t *testing.T) {
	agent := newStandIn(t)
	var eyes []*eye
	log := &lines{}
	for i, path := range []string{"/Arith", "/a/Arith", "/b/Arith", "/a/arith"} {
		r := open(t, "consul://"+agent.Listener.Addr().String()+path, WithLogger(log.logger()))
		list(t, r, "same", fmt.Sprint(i))
		eyes = append(eyes, look(t, r, ""))
	}
	for i, e := range eyes {
		e.sees(fmt.Sprint(i), "same")
	}
	if text := log.String(); text != "" {
		t.Errorf("logged: %s", text)
	}
}

// TestNextAgent uses two agents, of which the first can't be reached.
func TestNextAgent(t *testing.T) {
	agent := newStandIn(t)
	gone := newRelay(t, agent.Listener.Addr().String())
	gone.cut()
	r := open(t, fmt.Sprintf("consul://%s,%s/prod/Arith?ttl=1s", gone.addr, agent.Listener.Addr()))
	list(t, r, "a")
	look(t, r, "").sees("a")
	look(t, Resolver(), r.own.target()).sees("a")
}

// When its agent fails, a registration and a watch switch to the next agent.
func TestAgentFails(t *testing.T) {
	one, two := newStandIn(t), newStandIn(t)
	relay := newRelay(t, one.Listener.Addr().String())
	r := open(t, fmt.Sprintf("consul://%s,%s/prod/Arith?ttl=1s", relay.addr, two.Listener.Addr()))
	list(t, r, "a")
	e := look(t, r, "")
	e.sees("a")
	relay.cut()
	e.fails(5 * time.Second)
	e.sees("a")
	if two.services[r.own.serviceID("a")] == nil {
		t.Error("the second agent does not have the service")
	}
}

// target returns the place as the text of a target.
func (p place) target() string { return "consul://" + p.hosts + p.path + "?ttl=" + p.ttl.String() }

// Of several services with the same ID, registered through several agents, the last is used.
func TestSeveralNodes(t *testing.T) {
	m := &adapter.Mirror{}
	service := func(node, incarnation string, started int64, index uint64) *api.ServiceEntry {
		in := instance("a")
		in.Started, in.Incarnation = time.Unix(started, 0), incarnation
		reg := must(arith.registration(in))
		return &api.ServiceEntry{
			Node:    &api.Node{Node: node},
			Service: &api.AgentService{ID: reg.ID, Meta: reg.Meta, CreateIndex: index},
		}
	}
	entries := []*api.ServiceEntry{
		nil, {}, service("n1", "old", 1, 9), service("n2", "moved from", 2, 5), service("n3", "moved to", 2, 6), service("n4", "older", 0, 7),
	}
	for range 2 {
		got := arith.instances(m, entries)
		if len(got) != 1 || got["n3/"+arith.serviceID("a")].Incarnation != "moved to" {
			t.Errorf("got %+v", got)
		}
		slices.Reverse(entries)
	}
}

func TestNextIndex(t *testing.T) {
	for _, c := range [][3]uint64{{0, 0, 1}, {0, 5, 5}, {5, 5, 5}, {5, 6, 6}, {5, 4, 0}, {5, 0, 0}} {
		if got := nextIndex(c[0], c[1]); got != c[2] {
			t.Errorf("asked at %d, answered %d: next is %d, want %d", c[0], c[1], got, c[2])
		}
	}
}

// A watch continues when the agent's index starts again at a lower number.
func TestIndexGoesBack(t *testing.T) {
	agent := newStandIn(t)
	r := open(t, agent.target(""))
	e := look(t, r, "")
	e.sees()
	for i := range 20 {
		list(t, open(t, agent.target("x")), fmt.Sprint(i))
	}
	// Wait until the watch has a query with the current index: a query with the old index that
	// arrives after forget would be answered only at the end of its wait.
	if !agent.await(5*time.Second, func() bool { return agent.waiting == 1 && agent.asked == agent.index }) {
		t.Fatal("the watch does not wait")
	}
	agent.forget()
	list(t, r, "a")
	if took := e.sees("a"); took > 3*time.Second {
		t.Errorf("seen after %v", took)
	}
}

// An agent that was restarted answers with an empty list while it reads its log: neither
// a watch that was waiting nor a new watch delivers that list.
func TestEmptyListDuringReplayIsNotDelivered(t *testing.T) {
	agent := newStandIn(t)
	r := open(t, agent.target(""))
	list(t, r, "a")
	e := look(t, r, "")
	e.sees("a")
	if !agent.await(5*time.Second, func() bool { return agent.waiting == 1 && agent.asked == agent.index }) {
		t.Fatal("the watch does not wait")
	}
	agent.replay(true)
	believed := func(s registry.Snapshot) bool { return s.Err == nil && len(s.Instances) == 0 }
	late := look(t, open(t, agent.target("")), "")
	for _, e := range []*eye{e, late} {
		e.until("a failure", 5*time.Second, func(s registry.Snapshot) bool {
			if believed(s) {
				t.Error("the empty list of an agent that reads its log was delivered")
			}
			return s.Err != nil || believed(s)
		})
	}
	agent.replay(false)
	e.sees("a")
	late.sees("a")
}

// A list that ACLs have shortened, or that is empty perhaps because of ACLs, is a failure.
func TestFilteredListIsAFailure(t *testing.T) {
	agent := newStandIn(t)
	agent.filtered = true
	e := look(t, open(t, agent.target(""), WithToken("any")), "")
	e.fails(5 * time.Second)
	if names(e.last) != nil || !strings.Contains(e.last.Err.Error(), "service:read") {
		t.Errorf("got %+v", e.last)
	}
	agent = newStandIn(t)
	agent.policy = "deny"
	e = look(t, open(t, agent.target("")), "")
	e.fails(5 * time.Second)
	list(t, open(t, agent.target("")), "a")
	e.sees("a")
	look(t, open(t, agent.target("other"), WithToken("any")), "").sees()
}

// An agent that accepts a query and does not answer it is a failure.
func TestSilentAgent(t *testing.T) {
	t.Parallel() // it waits
	agent := newStandIn(t)
	agent.silent = true
	e := look(t, open(t, agent.target("")), "")
	if took := e.fails(10 * time.Second); took > answerIn+2*time.Second {
		t.Errorf("noticed after %v", took)
	}
}

// TestWatchesTakeTurns runs more watches than may wait at the same time.
func TestWatchesTakeTurns(t *testing.T) {
	t.Parallel() // it waits
	const n = 3 * maxWaiting
	agent := newStandIn(t)
	resolver := Resolver()
	eyes := make([]*eye, n)
	for i := range eyes {
		eyes[i] = look(t, resolver, agent.target(fmt.Sprint(i)))
	}
	for _, e := range eyes {
		e.sees()
	}
	for i := 0; i < n; i += 16 {
		list(t, open(t, agent.target(fmt.Sprint(i))), "a")
		if took := eyes[i].sees("a"); took > lookEvery+4*time.Second {
			t.Errorf("watch %d saw a change after %v", i, took)
		}
	}
	most := func() int {
		agent.mu.Lock()
		defer agent.mu.Unlock()
		return agent.most
	}
	for end := time.Now().Add(10 * time.Second); most() < maxWaiting && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond) // polls a condition: once nothing changes, all turns are taken
	}
	if n := most(); n != maxWaiting {
		t.Errorf("there were %d blocking queries at a time, want %d", n, maxWaiting)
	}
}

func TestPatience(t *testing.T) {
	for watches, want := range map[int64]time.Duration{
		1: longWait, maxWaiting: longWait, 2 * maxWaiting: lookEvery / 2, 2000: 128 * time.Millisecond, 1 << 40: leastWait,
	} {
		if got := patience(watches); got != want {
			t.Errorf("%d watches wait %v, want %v", watches, got, want)
		}
	}
}

// A redirect of an agent is not followed, so the token does not go to another host.
func TestRedirectsAreNotFollowed(t *testing.T) {
	var led atomic.Bool
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { led.Store(true) }))
	defer elsewhere.Close()
	agent := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer agent.Close()
	r := open(t, "consul://"+agent.Listener.Addr().String()+"/Arith", WithToken("secret"))
	_, err := r.Register(t.Context(), instance("a"))
	if err == nil || led.Load() || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v, led elsewhere: %v", err, led.Load())
	}
	look(t, r, "").fails(5 * time.Second)
}

// The token is sent in every request.
func TestTokenIsSent(t *testing.T) {
	agent := newStandIn(t)
	inner := agent.Config.Handler
	agent.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("X-Consul-Token") != "secret" {
			http.Error(w, "Permission denied", http.StatusForbidden)
			return
		}
		inner.ServeHTTP(w, req)
	})
	if _, err := open(t, agent.target("")).Register(t.Context(), instance("a")); err == nil {
		t.Error("registered without a token")
	}
	r := open(t, agent.target(""), WithToken("secret"))
	list(t, r, "a")
	look(t, r, "").sees("a")
}

// Reading a response with more bytes than the limit fails.
func TestAnswersAreBounded(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 101)) }))
	defer server.Close()
	for limit, ok := range map[int64]bool{100: false, 101: true} {
		client := &http.Client{Transport: bounded{&http.Transport{DisableKeepAlives: true}, limit}}
		resp, err := client.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); (err == nil) != ok {
			t.Errorf("limit %d: %v", limit, err)
		}
		resp.Body.Close()
	}
}

// Register without an agent fails with an error that names the registry, and a second
// Close does nothing.
func TestClose(t *testing.T) {
	r := must(New("consul://127.0.0.1:1/Arith"))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := r.Register(ctx, instance("a")); err == nil || !strings.Contains(err.Error(), "consul registry") {
		t.Errorf("got %v", err)
	}
	for range 2 {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}
