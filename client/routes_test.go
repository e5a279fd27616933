package client_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// cities are two instances of version 1 and two of version 2.
var cities = []tandem.Instance{{ID: "1a", Version: "1"}, {ID: "1b", Version: "1"}, {ID: "2a", Version: "2"}, {ID: "2b", Version: "2"}}

// halves sends half of the calls to each version.
var halves = policy.Policy{
	Ejection: &policy.Ejection{Off: true},
	Routes:   []policy.Route{{Name: "halves", To: []policy.Subset{{Version: "1"}, {Version: "2"}}}},
}

// routedClient returns a client of the instances with a policy in code.
func routedClient(t *testing.T, p *policy.Policy, instances []tandem.Instance, opts ...client.Option) *client.Client {
	t.Helper()
	dial, stop := fleet(instances...)
	t.Cleanup(stop)
	c := dial(write("").source(), append(opts, client.WithPolicy(p))...)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// The attempts at a call stay in the subset that its first one drew, in every fail mode, also when
// they are more than its instances.
func TestAttemptsStayInTheirSubset(t *testing.T) {
	c := routedClient(t, &halves, cities, client.WithRetries(4), client.WithFailMode(client.Failover),
		client.WithAttempts(client.Attempts{Budget: &policy.Budget{Share: 1, PerSecond: 1_000_000}, BackupShare: 1}))
	for _, mode := range []tandem.FailMode{client.Failover, client.Fork, client.Broadcast, client.Backup} {
		versions := map[byte]int{}
		for range 100 {
			var e client.Explanation
			_ = c.Call(context.Background(), "Cart.Fail", "", nil, client.FailMode(mode), client.Idempotent(), client.Explain(&e))
			first := e.Attempts[0].Chosen
			for _, a := range e.Attempts {
				if a.Chosen == "" || a.Chosen[0] != first[0] {
					t.Fatalf("%v: attempt %d went to %q, the first to %q", mode, a.Number, a.Chosen, first)
				}
			}
			if len(e.Attempts) < 2 {
				t.Fatalf("%v: %d attempts", mode, len(e.Attempts))
			}
			versions[first[0]]++
		}
		if versions['1'] < 20 || versions['2'] < 20 {
			t.Errorf("%v: calls by version: %v", mode, versions)
		}
	}
}

// A broadcast goes to all instances of the subset, and to no others.
func TestBroadcastWithinTheSubset(t *testing.T) {
	p := &policy.Policy{Routes: []policy.Route{{Name: "two", To: []policy.Subset{{Version: "2"}}}}}
	c := routedClient(t, p, cities)
	var e client.Explanation
	if err := c.Call(context.Background(), "Cart.Get", "", nil, client.FailMode(client.Broadcast), client.Explain(&e)); err != nil {
		t.Fatal(err)
	}
	var at []string
	for _, a := range e.Attempts {
		at = append(at, a.Chosen)
	}
	slices.Sort(at)
	if !slices.Equal(at, []string{"2a", "2b"}) {
		t.Errorf("the broadcast went to %q", at)
	}
}

// The only instance gets no calls that a route sends elsewhere; the error and the explanation name
// the route.
func TestRouteAwayFromTheOnlyInstance(t *testing.T) {
	p := &policy.Policy{Routes: []policy.Route{
		{Name: "ann", Match: policy.Match{Metadata: map[string]policy.Text{"user": {Exact: "ann"}}}, To: []policy.Subset{{Version: "2"}}},
	}}
	c := routedClient(t, p, cities[:1])
	if err := c.Call(context.Background(), "Cart.Get", "", nil, client.Metadata("user", "bob")); err != nil {
		t.Error(err)
	}
	var e client.Explanation
	err := c.Call(context.Background(), "Cart.Get", "", nil, client.Metadata("user", "ann"), client.Explain(&e))
	const want = `route "ann": none of 1 instances is in the subset "version 2"`
	if tandem.CodeOf(err) != tandem.Unavailable || !tandem.AsError(err).NotExecuted || !strings.Contains(fmt.Sprint(err), want) {
		t.Errorf("error %v, want %s", err, want)
	}
	if text := e.String(); !strings.Contains(text, `route "ann" sends 100 % to version 2: it fails`) || !strings.Contains(text, "not 1a: route \"ann\" sends the call elsewhere") {
		t.Error(text)
	}
	var from string
	for _, s := range c.Settings("") {
		if s.Name == "Routes" {
			from = fmt.Sprintf("%v by %.6s", s.Value, s.From)
		}
	}
	if from != "ann by policy" {
		t.Errorf("the settings say %q", from)
	}
}

// A subset whose only instance takes no calls is left for its fallback, and used again afterwards.
func TestFallbackWhenTheCanaryStops(t *testing.T) {
	p := &policy.Policy{Routes: []policy.Route{{Name: "canary", To: []policy.Subset{{Version: "2"}}, Fallback: []policy.Subset{{Version: "1"}}}}}
	c := routedClient(t, p, []tandem.Instance{cities[0], cities[2]}, client.WithFailMode(client.Failover))
	if counts := countCalls(c, 50, nothing); counts["2a"] != 50 {
		t.Fatalf("%v before", counts)
	}
	if err := c.ForceBreaker("2a", true, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if counts := countCalls(c, 50, nothing); counts["1a"] != 50 {
		t.Errorf("%v while no instance of the canary takes calls", counts)
	}
	if err := c.ForceBreaker("2a", false, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if counts := countCalls(c, 50, nothing); counts["2a"] != 50 {
		t.Errorf("%v afterwards", counts)
	}
}

// While the subset has a usable instance, retries and forks do not leave it for an instance of a
// fallback that is being connected.
func TestRetriesDoNotLeaveForAConnection(t *testing.T) {
	p := &policy.Policy{
		Ejection: &policy.Ejection{Off: true},
		Routes:   []policy.Route{{Name: "canary", To: []policy.Subset{{Version: "2"}}, Fallback: []policy.Subset{{Version: "1"}}}},
	}
	network, list := transport.NewMemory(), registry.NewMemory()
	srv := server.New(server.WithTransport("mem", network))
	check(server.Handle(srv, "Cart.Fail", func(context.Context, *string) (*string, error) { return nil, tandem.Errorf(tandem.Unavailable, "full") }))
	ln, err := network.Listen(context.Background(), "2a")
	check(err)
	done := make(chan error, 1)
	go func() { done <- srv.ServeListener(ln) }()
	defer func() { check(srv.Close()); <-done }()
	silent, err := network.Listen(context.Background(), "1a")
	check(err)
	defer silent.Close()
	for id, version := range map[string]string{"2a": "2", "1a": "1"} { // 1a accepts no connection
		_, err := list.Register(context.Background(), tandem.Instance{ID: id, Version: version, Endpoints: []tandem.Endpoint{{Transport: "mem", Address: id}}})
		check(err)
	}
	c, err := client.Dial("memory://x", client.WithTransport("mem", network), client.WithResolver("memory", list), client.WithPolicy(p),
		client.WithFailMode(client.Failover), client.WithRetries(3))
	check(err)
	defer c.Close()
	retries := 0
	for _, mode := range []tandem.FailMode{client.Failover, client.Fork} {
		for range 20 {
			var e client.Explanation
			_ = c.Call(context.Background(), "Cart.Fail", "", nil, client.FailMode(mode), client.Idempotent(), client.Timeout(time.Second), client.Explain(&e))
			retries += len(e.Attempts) - 1
			for _, a := range e.Attempts {
				if a.Chosen != "2a" {
					t.Fatalf("%v: attempt %d went to %q: %s", mode, a.Number, a.Chosen, a.Error)
				}
			}
		}
	}
	if retries == 0 {
		t.Error("no call was retried")
	}
}
