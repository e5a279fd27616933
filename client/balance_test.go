package client_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// dialed is a network that records which addresses were dialed.
type dialed struct {
	tandem.Transport
	addresses *sync.Map
}

func (d dialed) Dial(ctx context.Context, address string) (net.Conn, error) {
	d.addresses.Store(address, true)
	return d.Transport.Dial(ctx, address)
}

func (d dialed) count() (n int) {
	d.addresses.Range(func(any, any) bool { n++; return true })
	return n
}

// whoAnswers registers a method that returns the ID of its server.
func whoAnswers(id string) func(*server.Server) error {
	return func(srv *server.Server) error {
		return server.Handle(srv, "Who.Is", func(context.Context, *string) (*string, error) { return &id, nil })
	}
}

// startServers starts servers s0, s1, … on a network and returns their instances, each modified
// by change.
func startServers(t *testing.T, count int, change func(i int, in *tandem.Instance)) (dialed, []tandem.Instance) {
	network := dialed{transport.NewMemory(), new(sync.Map)}
	var list []tandem.Instance
	for i := range count {
		in := at(fmt.Sprintf("s%d", i))
		if change != nil {
			change(i, &in)
		}
		serveOn(t, network.Transport, in.ID, whoAnswers(in.ID))
		list = append(list, in)
	}
	return network, list
}

// answers makes calls and returns how many each server answered.
func answers(t *testing.T, c *client.Client, n int, opts ...tandem.CallOption) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for range n {
		id, err := client.Invoke[string](t.Context(), c, "Who.Is", "", opts...)
		if err != nil {
			t.Fatal(err)
		}
		counts[*id]++
	}
	return counts
}

// A client connects to its subset only, and to another instance when a call goes there; that
// connection is closed when it is not used any more.
func TestClientConnectsToItsSubset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network, list := startServers(t, 20, nil)
		members := make(script)
		c := dial(t, "script://x", client.WithTransport("mem", network), client.WithResolver("script", members),
			client.WithBalancer(balance.Subset(3, "me", balance.Random())))
		revision := uint64(1)
		update := func() {
			list[0].Weight = int(revision) // makes the list a new one
			members <- registry.Snapshot{Instances: append([]tandem.Instance(nil), list...), Revision: revision}
			revision++
			synctest.Wait()
		}
		update()
		if n := network.count(); n != 3 {
			t.Fatalf("connected to %d instances, want 3", n)
		}
		inside := answers(t, c, 100)
		if len(inside) != 3 || network.count() != 3 {
			t.Errorf("%v answered, %d are connected", inside, network.count())
		}
		outside := list[0].ID
		for _, in := range list {
			if inside[in.ID] == 0 {
				outside = in.ID
			}
		}
		if got := answers(t, c, 5, client.Instance(outside)); got[outside] != 5 || network.count() != 4 {
			t.Errorf("%v answered, %d were dialed", got, network.count())
		}
		network.addresses.Clear()
		update() // it was used: it stays
		answers(t, c, 5, client.Instance(outside))
		if network.count() != 0 {
			t.Errorf("dialed again: %d", network.count())
		}
		update()
		update() // and it was not
		answers(t, c, 1, client.Instance(outside))
		if network.count() != 1 {
			t.Errorf("%d were dialed, want the one that was left", network.count())
		}
	})
}

// When the whole subset is down, calls go to other instances.
func TestSubsetThatIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := transport.NewMemory()
		policy := balance.Subset(2, "me", balance.P2C())
		var list []tandem.Instance
		for i := range 6 {
			list = append(list, at(fmt.Sprintf("s%d", i)))
		}
		down := map[string]bool{}
		for _, in := range policy.Needs().Narrow(list) {
			down[in.ID] = true
		}
		for _, in := range list {
			if !down[in.ID] {
				serveOn(t, mem, in.ID, whoAnswers(in.ID))
			}
		}
		members := make(script)
		c := dial(t, "script://x", client.WithTransport("mem", mem), client.WithResolver("script", members), client.WithBalancer(policy))
		members <- registry.Snapshot{Instances: list, Revision: 1}
		time.Sleep(time.Second)
		for id := range answers(t, c, 20) {
			if down[id] {
				t.Errorf("%s answered, which is down", id)
			}
		}
	})
}

// Calls follow their route under every policy, for the call and for the client, also with one
// instance.
func TestClientKeepsToRoutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network, list := startServers(t, 4, func(i int, in *tandem.Instance) {
			in.Version = fmt.Sprint(i)
			if i == 3 {
				in.Tags = map[string]string{balance.ReservedTag: "blue"}
			}
		})
		of := func(list []tandem.Instance, opts ...client.Option) *client.Client {
			members := make(script)
			c := dial(t, "script://x", append(opts, client.WithTransport("mem", network), client.WithResolver("script", members))...)
			members <- registry.Snapshot{Instances: list, Revision: 1}
			synctest.Wait()
			return c
		}
		c := of(list, client.WithBalancer(balance.RoundRobin()))
		blue := tandem.Route{Tags: map[string]string{"lane": "blue"}}
		for want, route := range map[string]tandem.Route{"s1": {Version: "1"}, "s3": blue} {
			if got := answers(t, c, 10, client.Route(route)); got[want] != 10 {
				t.Errorf("%v: %v", &route, got)
			}
		}
		if got := answers(t, c, 30); got["s0"] != 10 || got["s3"] != 0 {
			t.Errorf("without a route: %v", got)
		}
		err := c.Call(t.Context(), "Who.Is", "", nil, client.Route(tandem.Route{Version: "7"}))
		if tandem.CodeOf(err) != tandem.Unavailable || !strings.Contains(err.Error(), "version 7") || tandem.MayHaveExecuted(err) {
			t.Errorf("no such version: %v", err)
		}

		c = of(list, client.WithRoute(tandem.Route{Version: "2"}))
		if got := answers(t, c, 10); got["s2"] != 10 {
			t.Errorf("by the client's route: %v", got)
		}
		if got := answers(t, c, 10, client.Route(tandem.Route{Version: "1"})); got["s1"] != 10 {
			t.Errorf("by the call's: %v", got)
		}

		c = of(list[:1]) // one instance
		if got := answers(t, c, 2); got["s0"] != 2 {
			t.Errorf("the only instance: %v", got)
		}
		if err := c.Call(t.Context(), "Who.Is", "", nil, client.Route(tandem.Route{Version: "7"})); tandem.CodeOf(err) != tandem.Unavailable {
			t.Errorf("the only instance, of another version: %v", err)
		}

		c = of(list[3:]) // one instance, which is reserved
		if err := c.Call(t.Context(), "Who.Is", "", nil); tandem.CodeOf(err) != tandem.Unavailable || !strings.Contains(err.Error(), "reserved") {
			t.Errorf("the only instance is reserved: %v", err)
		}
		if got := answers(t, c, 2, client.Route(blue)); got["s3"] != 2 {
			t.Errorf("the only instance: %v", got)
		}
		if err := c.Call(t.Context(), "Who.Is", "", nil, client.Route(tandem.Route{Group: "g"})); tandem.CodeOf(err) != tandem.Unavailable {
			t.Errorf("the only instance, in no group: %v", err)
		}
	})
}

// Broadcast calls all instances that the route allows, and no others.
func TestBroadcastKeepsToRoutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked sync.Map
		network, list := startServers(t, 5, func(i int, in *tandem.Instance) {
			in.Version = fmt.Sprint(i % 2)
			if i == 4 {
				in.Tags = map[string]string{balance.ReservedTag: "blue"}
			}
		})
		members := make(script)
		c := dial(t, "script://x", client.WithTransport("mem", network), client.WithResolver("script", members), client.WithFailMode(client.Broadcast),
			client.WithAttemptInterceptors(func(next tandem.Func) tandem.Func {
				return func(ctx context.Context, call *tandem.Call) error {
					asked.Store(call.Pin, true)
					return next(ctx, call)
				}
			}))
		members <- registry.Snapshot{Instances: list, Revision: 1}
		synctest.Wait()
		for name, want := range map[string]struct {
			route *tandem.Route
			ids   []string
		}{
			"none":              {nil, []string{"s0", "s1", "s2", "s3"}},
			"version":           {&tandem.Route{Version: "1"}, []string{"s1", "s3"}},
			"lane":              {&tandem.Route{Tags: map[string]string{"lane": "blue"}}, []string{"s4"}},
			"lane and version":  {&tandem.Route{Version: "0", Tags: map[string]string{"lane": "blue"}}, []string{"s4"}},
			"lane that is none": {&tandem.Route{Tags: map[string]string{"lane": "red"}}, []string{"s0", "s1", "s2", "s3"}},
		} {
			asked.Clear()
			var opts []tandem.CallOption
			if want.route != nil {
				opts = append(opts, client.Route(*want.route))
			}
			if err := c.Call(t.Context(), "Who.Is", "", nil, opts...); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			var ids []string
			asked.Range(func(id, _ any) bool {
				ids = append(ids, id.(string))
				return true
			})
			if slices.Sort(ids); !slices.Equal(ids, want.ids) {
				t.Errorf("route %s: the call went to %v, want %v", name, ids, want.ids)
			}
		}
		err := c.Call(t.Context(), "Who.Is", "", nil, client.Route(tandem.Route{Version: "7"}))
		if tandem.CodeOf(err) != tandem.Unavailable || tandem.MayHaveExecuted(err) {
			t.Errorf("no such version: %v", err)
		}
		c = dial(t, "static://s0?transport=mem", client.WithTransport("mem", network), client.WithRoute(tandem.Route{Version: "7"}))
		if e := c.Describe("Who.Is").String(); !strings.Contains(e, `wanted "7"`) {
			t.Errorf("a call by the client's route is explained as %s", e)
		}
	})
}

// Hash keys are made from the arguments, unless the call has one.
func TestHashKeyOfArguments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network, _ := startServers(t, 8, nil)
		var methods []string
		c := dial(t, "static://s0,s1,s2,s3,s4,s5,s6,s7?transport=mem", client.WithTransport("mem", network), client.WithBalancer(balance.RingHash()),
			client.WithHashKey(func(method string, args any) string {
				methods = append(methods, method)
				s, _ := args.(string)
				return s
			}))
		synctest.Wait()
		homes := map[string]bool{}
		for key := range 20 {
			var first string
			for i := range 5 {
				var id string
				args, opts := any(fmt.Sprint("key-", key)), []tandem.CallOption(nil)
				if i > 2 { // the same key, given by the call
					args, opts = "other", append(opts, client.HashKey(fmt.Sprint("key-", key)))
				}
				if err := c.Call(t.Context(), "Who.Is", args, &id, opts...); err != nil {
					t.Fatal(err)
				}
				if first == "" {
					first = id
				}
				if id != first {
					t.Errorf("key-%d is on %s and on %s", key, first, id)
				}
			}
			homes[first] = true
		}
		if len(homes) < 4 {
			t.Errorf("20 keys are on %v", homes)
		}
		if len(methods) != 60 || methods[0] != "Who.Is" {
			t.Errorf("asked %d times, for %s", len(methods), methods[0])
		}
		if _, err := c.OpenStream(t.Context(), "No.Stream"); err == nil || methods[len(methods)-1] != "No.Stream" {
			t.Errorf("a stream's key: %v, %s", err, methods[len(methods)-1])
		}
	})
}

// The load that servers report in responses is kept if the policy uses it.
func TestLoadOfReplies(t *testing.T) {
	for name, policy := range map[string]balance.Policy{"least_loaded": balance.LeastLoaded(), "p2c": balance.P2C()} {
		synctest.Test(t, func(t *testing.T) {
			mem, hold := transport.NewMemory(), make(chan struct{})
			for _, id := range []string{"a", "b"} {
				serveOn(t, mem, id, func(srv *server.Server) error {
					return server.Handle(srv, "It.Waits", func(_ context.Context, wait *bool) (*bool, error) {
						if *wait {
							<-hold
						}
						return wait, nil
					})
				})
			}
			nodes := new(sync.Map)
			target := "static://a,b?transport=mem"
			others := dial(t, target, client.WithTransport("mem", mem))
			c := dial(t, target, client.WithTransport("mem", mem), client.WithBalancer(peeked{policy, nodes}))
			synctest.Wait()
			var wg sync.WaitGroup
			for range 5 {
				wg.Go(func() {
					_ = others.Call(context.Background(), "It.Waits", true, nil, client.Instance("mem://a"), client.Timeout(time.Hour))
				})
			}
			time.Sleep(time.Second)
			for _, id := range []string{"mem://a", "mem://b"} {
				if err := c.Call(t.Context(), "It.Waits", false, nil, client.Instance(id)); err != nil {
					t.Fatal(err)
				}
			}
			want := 5
			if name == "p2c" {
				want = 0
			}
			stats, _ := nodes.Load("mem://a")
			if calls, _ := stats.(*balance.Stats).Reported(); calls != want {
				t.Errorf("%s: a reported %d calls of others, want %d", name, calls, want)
			}
			close(hold)
			wg.Wait()
		})
	}
}

// peeked is a policy that keeps its nodes' Stats.
type peeked struct {
	balance.Policy
	stats *sync.Map
}

func (s peeked) Build(nodes []*balance.Node) balance.Picker {
	for _, n := range nodes {
		s.stats.Store(n.Instance.ID, n.Stats)
	}
	return s.Policy.Build(nodes)
}
