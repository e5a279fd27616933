//go:build linux

package scale

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry"
)

var large = flag.Bool("large", false, "measure thousands of connections and 10,000 instances; make scale does")

// shape is a fleet: servers that listen, instances that are listed, and clients.
type shape struct {
	listed, clients int
	part            int // instances of an Aperture; 0 for no Aperture
}

// shapes returns what is measured. There are 100 listeners, which the instances of long lists share.
func shapes() []shape {
	if *large {
		return []shape{{100, 80, 0}, {1000, 400, 20}, {10_000, 50, 20}}
	}
	return []shape{{20, 5, 0}, {200, 5, 4}}
}

// Every client connects to its part of the instances and to no others, and applies each new list
// and policy. The log has what that costs.
func TestFleetOfProcesses(t *testing.T) {
	for _, s := range shapes() {
		t.Run(fmt.Sprintf("%d_instances,%d_clients,part_%d", s.listed, s.clients, s.part), func(t *testing.T) { measure(t, s) })
	}
}

func measure(t *testing.T, s shape) {
	servers := startServers(t, min(s.listed, 100))
	source := newSource(s, servers.addresses)
	serverBefore, before := servers.ask(), ownUsage(t)
	began := time.Now()
	clients := dialAll(t, s, source)
	want := 0
	for i := range clients {
		want += s.connections(i, source.now())
	}
	await(t, "the connections", 200*time.Millisecond, func() bool { return connections(clients) == want })
	connected := time.Since(began)
	after, server := ownUsage(t), servers.ask()
	if server.connections != want {
		t.Errorf("the servers have %d connections, the clients want %d", server.connections, want)
	}

	changed := time.Now()
	source.replaceTenth()
	await(t, "the new list", 10*time.Millisecond, func() bool {
		return all(clients, func(c *client.Client) bool { return c.State().Listed.After(changed) })
	})
	listed, listUsage := time.Since(changed), ownUsage(t)
	await(t, "the connections of the new list", 200*time.Millisecond, func() bool {
		return all(clients, func(c *client.Client) bool { return c.State().Instances.Unconnected == 0 })
	})

	changed = time.Now()
	source.steer(`{"version":"v2","retryBudget":{"share":0.2,"perSecond":5}}`)
	await(t, "the new policy", 10*time.Millisecond, func() bool { return all(clients, func(c *client.Client) bool { return c.Policy().InForce == "v2" }) })
	t.Logf("%6d connections in %v; KiB a connection: client %.1f (with its list), server %.1f; KiB a client: %.0f; KiB an instance: %.0f",
		want, connected.Round(time.Millisecond), after.kib(before)/float64(want), server.kib(serverBefore)/float64(want),
		after.kib(before)/float64(s.clients), server.kib(serverBefore)/float64(min(s.listed, 100)))
	t.Logf("all have a new list after %v, CPU %.2f ms a client; a new policy after %v",
		listed.Round(time.Millisecond), milliseconds(listUsage.cpu-after.cpu)/float64(s.clients), time.Since(changed).Round(time.Millisecond))
}

// connections returns how many instances a client connects to.
func (s shape) connections(number int, list []tandem.Instance) int {
	if s.part == 0 {
		return len(list)
	}
	return len(s.balancer(number).Needs().Narrow(list))
}

func (s shape) balancer(number int) balance.Policy {
	if s.part == 0 {
		return balance.P2C()
	}
	return balance.Aperture(number, s.clients, s.part, balance.P2C())
}

func dialAll(t *testing.T, s shape, source *source) []*client.Client {
	t.Helper()
	clients := make([]*client.Client, s.clients)
	for i := range clients {
		c, err := client.Dial("fleet://all", client.WithResolver("fleet", source), client.WithBalancer(s.balancer(i)),
			client.WithPolicyFrom(documents{source}, fmt.Sprint("client-", i)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		clients[i] = c
	}
	return clients
}

func connections(clients []*client.Client) (n int) {
	for _, c := range clients {
		n += c.State().Connections
	}
	return n
}

func all(clients []*client.Client, holds func(*client.Client) bool) bool {
	for _, c := range clients {
		if !holds(c) {
			return false
		}
	}
	return true
}

// await waits until something holds, which it checks at that interval, and fails after five minutes.
func await(t *testing.T, what string, every time.Duration, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Minute); !holds(); time.Sleep(every) { // sockets of two processes
		if time.Now().After(end) {
			t.Fatalf("waited for %s for five minutes", what)
		}
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// source is the registry of all clients: a list, and the document of their policy.
type source struct {
	mu      sync.Mutex
	list    []tandem.Instance
	text    []byte
	version uint64
	changed chan struct{} // closed and replaced at each change
}

func newSource(s shape, addresses []string) *source {
	r := &source{changed: make(chan struct{}), version: 1, text: []byte(`{"version":"v1"}`)}
	for i := range s.listed {
		r.list = append(r.list, tandem.Instance{
			ID: fmt.Sprintf("i%05d", i), Zone: fmt.Sprint("zone-", i%50), Version: "1.2.3", Services: []string{"Echo"},
			Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: addresses[i%len(addresses)]}},
		})
	}
	return r
}

func (r *source) now() []tandem.Instance {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.list
}

// replaceTenth gives a tenth of the instances new IDs.
func (r *source) replaceTenth() {
	r.change(func() {
		next := append([]tandem.Instance(nil), r.list...)
		for i := 0; i < len(next); i += 10 {
			next[i].ID += "-new"
		}
		r.list = next
	})
}

func (r *source) steer(text string) { r.change(func() { r.text = []byte(text) }) }

func (r *source) change(do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	do()
	r.version++
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *source) Watch(ctx context.Context, _ registry.Target, update func(registry.Snapshot)) error {
	return r.follow(ctx, func(list []tandem.Instance, _ []byte, version uint64) {
		update(registry.Snapshot{Instances: list, Revision: version})
	})
}

func (r *source) follow(ctx context.Context, deliver func([]tandem.Instance, []byte, uint64)) error {
	for ctx.Err() == nil {
		r.mu.Lock()
		list, text, version, changed := r.list, r.text, r.version, r.changed
		r.mu.Unlock()
		deliver(list, text, version)
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// documents is the policy of a source.
type documents struct{ *source }

var _ policy.Source = documents{}

func (d documents) Watch(ctx context.Context, update func([]byte, error)) error {
	return d.follow(ctx, func(_ []tandem.Instance, text []byte, _ uint64) { update(text, nil) })
}
