package client_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// fleet starts a server for each instance, with a method that returns the instance's ID, and
// returns a function that makes clients of them, whose connections are open.
func fleet(instances ...tandem.Instance) (dial func(policy.Source, ...client.Option) *client.Client, stop func()) {
	network, list := transport.NewMemory(), registry.NewMemory()
	var servers []*server.Server
	done := make(chan error, len(instances))
	for _, in := range instances {
		srv := server.New(server.WithTransport("mem", network))
		check(server.Handle(srv, "Cart.Get", func(context.Context, *string) (*string, error) { return &in.ID, nil }))
		check(server.Handle(srv, "Cart.Fail", func(context.Context, *string) (*string, error) {
			return nil, tandem.Errorf(tandem.Unavailable, "%s is full", in.ID)
		}))
		ln, err := network.Listen(context.Background(), in.ID)
		check(err)
		go func() { done <- srv.ServeListener(ln) }()
		in.Endpoints = []tandem.Endpoint{{Transport: "mem", Address: in.ID}}
		_, err = list.Register(context.Background(), in)
		check(err)
		servers = append(servers, srv)
	}
	dial = func(src policy.Source, opts ...client.Option) *client.Client {
		c, err := client.Dial("memory://x", append([]client.Option{
			client.WithTransport("mem", network), client.WithResolver("memory", list), client.WithPolicyFrom(src, "test"),
		}, opts...)...)
		check(err)
		for _, in := range instances {
			check(c.Call(context.Background(), "Cart.Get", "", nil, client.Instance(in.ID)))
		}
		return c
	}
	return dial, func() {
		for _, srv := range servers {
			check(srv.Close())
			<-done
		}
	}
}

// written is a policy whose text can be replaced while clients follow it.
type written struct {
	list *registry.Memory
	key  string
}

// write makes a policy of the routes.
func write(text string) written {
	w := written{registry.NewMemory(), "policy"}
	w.replace(text)
	return w
}

func (w written) replace(text string) {
	w.list.PutDocument(w.key, []byte(text))
}

func (w written) source() policy.Source { return policy.FromRegistry(w.list, w.key) }

// followed waits until a client has taken up the text.
func (w written) followed(c *client.Client, text string) {
	for c.Policy().InForce != policy.VersionOf([]byte(text)) {
		time.Sleep(time.Millisecond) // polls a condition
	}
}

// countCalls makes n calls and returns how many went to each instance.
func countCalls(c *client.Client, n int, opts func(i int) []tandem.CallOption) map[string]int {
	counts := map[string]int{}
	for i := range n {
		id, err := client.Invoke[string](context.Background(), c, "Cart.Get", "", opts(i)...)
		if err != nil {
			counts["failed: "+err.Error()]++
			continue
		}
		counts[*id]++
	}
	return counts
}

func user(i int) []tandem.CallOption {
	return []tandem.CallOption{client.Metadata("user", fmt.Sprint("user-", i))}
}

func nothing(int) []tandem.CallOption { return nil }

// A canary gets 5 % of the calls. If no instance of it is usable the others get them.
func ExampleWithPolicyFrom_canary() {
	text := `{"routes": [{
		"name": "canary",
		"to": [{"version": "2", "weight": 5}, {"version": "1", "weight": 95}],
		"fallback": [{"version": "1"}]
	}]}`
	dial, stop := fleet(tandem.Instance{ID: "old", Version: "1"}, tandem.Instance{ID: "new", Version: "2"})
	defer stop()
	w := write(text)
	c := dial(w.source())
	defer c.Close()
	w.followed(c, text)
	counts := countCalls(c, 2000, nothing)
	fmt.Println(len(counts), "instances; 5 % of 2000 calls at the new one:", counts["new"] > 50 && counts["new"] < 150)
	// Output: 2 instances; 5 % of 2000 calls at the new one: true
}

// Blue runs while green is prepared; one change of the policy moves all calls, and back.
func ExampleWithPolicyFrom_blueGreen() {
	to := func(group string) string {
		return `{"routes": [{"name": "live", "to": [{"group": "` + group + `"}]}]}`
	}
	dial, stop := fleet(tandem.Instance{ID: "a", Group: "blue"}, tandem.Instance{ID: "b", Group: "green"})
	defer stop()
	w := write(to("blue"))
	c := dial(w.source())
	defer c.Close()
	for _, group := range []string{"blue", "green", "blue"} {
		w.replace(to(group))
		w.followed(c, to(group))
		fmt.Println(group, countCalls(c, 100, nothing))
	}
	// Output:
	// blue map[a:100]
	// green map[b:100]
	// blue map[a:100]
}

// 5 % of the users meet the canary, the same ones at every call and in every client. With 10 %
// all of them stay, and others come.
func ExampleWithPolicyFrom_stickyCanary() {
	share := func(percent int) string {
		return fmt.Sprintf(`{"routes": [
			{"name": "canary", "match": {"share": {"percent": %d, "metadata": "user"}}, "to": [{"version": "2"}], "fallback": [{"version": "1"}]},
			{"name": "rest", "to": [{"version": "1"}]}
		]}`, percent)
	}
	dial, stop := fleet(tandem.Instance{ID: "old", Version: "1"}, tandem.Instance{ID: "new", Version: "2"})
	defer stop()
	w := write(share(5))
	one, other := dial(w.source()), dial(w.source())
	defer one.Close()
	defer other.Close()
	met := func(c *client.Client) (users []int) {
		for i := range 1000 {
			if countCalls(c, 1, func(int) []tandem.CallOption { return user(i) })["new"] == 1 {
				users = append(users, i)
			}
		}
		return users
	}
	w.followed(one, share(5))
	w.followed(other, share(5))
	few := met(one)
	fmt.Println("at 5 %:", len(few), "of 1000 users; the same again and in another client:", slices.Equal(few, met(one)) && slices.Equal(few, met(other)))
	w.replace(share(10))
	w.followed(one, share(10))
	more := met(one)
	stay := !slices.ContainsFunc(few, func(i int) bool { return !slices.Contains(more, i) })
	fmt.Println("at 10 %:", len(more), "of 1000 users; all of the first stay:", stay)
	// Output:
	// at 5 %: 48 of 1000 users; the same again and in another client: true
	// at 10 %: 95 of 1000 users; all of the first stay: true
}

// While zone a is taken out for maintenance, its clients and all others call zone b.
func ExampleWithPolicyFrom_zoneSwitch() {
	const open = `{"balancer": {"pick": "round-robin"}}`
	const switched = `{"balancer": {"pick": "round-robin"}, "routes": [{"name": "zone a is closed", "to": [{"except": [{"zone": "a"}]}]}]}`
	dial, stop := fleet(tandem.Instance{ID: "a1", Zone: "a"}, tandem.Instance{ID: "a2", Zone: "a"},
		tandem.Instance{ID: "b1", Zone: "b"}, tandem.Instance{ID: "c1", Zone: "c"})
	defer stop()
	w := write(open)
	c := dial(w.source(), client.WithPolicyFrom(w.source(), "test", client.Self{Zone: "a"}))
	defer c.Close()
	for _, text := range []string{open, switched, open} {
		w.replace(text)
		w.followed(c, text)
		fmt.Println(countCalls(c, 100, nothing))
	}
	// Output:
	// map[a1:25 a2:25 b1:25 c1:25]
	// map[b1:50 c1:50]
	// map[a1:25 a2:25 b1:25 c1:25]
}

// Calls stay in the client's zone, and fail rather than leave it.
func ExampleSelf_zone() {
	const text = `{"routes": [{"name": "same zone", "to": [{"sameZone": true}]}]}`
	dial, stop := fleet(tandem.Instance{ID: "a1", Zone: "a"}, tandem.Instance{ID: "b1", Zone: "b"})
	defer stop()
	w := write(text)
	for _, zone := range []string{"a", "b", "c"} {
		c := dial(w.source(), client.WithPolicyFrom(w.source(), "test", client.Self{Zone: zone}))
		w.followed(c, text)
		fmt.Println(zone, countCalls(c, 100, nothing))
		check(c.Close())
	}
	// Output:
	// a map[a1:100]
	// b map[b1:100]
	// c map[failed: unavailable: no instance of memory://x for Cart.Get: route "same zone": none of 2 instances is in the subset "zone c":100]
}

// A route for the calls of one service, and what Explain says of a call that it matches.
func ExampleSelf() {
	p := &policy.Policy{Routes: []policy.Route{
		{Name: "ann", Match: policy.Match{Metadata: map[string]policy.Text{"user": {Exact: "ann"}}}, To: []policy.Subset{{Version: "2"}}},
		{Name: "reports", Match: policy.Match{Callers: []string{"reports"}}, To: []policy.Subset{{Group: "batch"}}, Fallback: []policy.Subset{{Version: "1"}}},
	}}
	c, stop := one(func(context.Context, *string) (*string, error) { return nil, nil }, client.WithPolicy(p, client.Self{Caller: "reports"}))
	defer stop()
	_ = c.Call(context.Background(), "It.Does", "", nil, client.Instance("mem://it")) // it is connected
	for _, line := range c.Describe("It.Does").Attempts[0].Route.Lines() {
		fmt.Println(line)
	}
	err := c.Call(context.Background(), "It.Does", "", nil)
	fmt.Println(tandem.CodeOf(err), "not executed:", tandem.AsError(err).NotExecuted)
	// Output:
	// route "reports" sends 100 % to group batch: it fails: none of 1 instances is in the subset "group batch"
	// route "ann" does not match: the call has no metadata "user"
	// unavailable not executed: true
}
