package client_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/adapter"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// at is the instance at an address of the network "mem"; its ID is the address.
func at(address string) tandem.Instance {
	return tandem.Instance{ID: address, Endpoints: []tandem.Endpoint{{Transport: "mem", Address: address}}}
}

func list(t *testing.T, m *registry.Memory, address string) registry.Registration {
	t.Helper()
	r, err := m.Register(t.Context(), at(address))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// All connections to an instance are used about equally.
func TestAllConnectionsAreUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		calls := map[*tandem.Peer]int{} // a connection's calls share their Peer
		mem := transport.NewMemory()
		serveOn(t, mem, "a", methods, server.WithInterceptors(func(next tandem.Func) tandem.Func {
			return func(ctx context.Context, call *tandem.Call) error {
				mu.Lock()
				calls[call.Peer]++
				mu.Unlock()
				return next(ctx, call)
			}
		}))
		c := dial(t, "mem://a", client.WithTransport("mem", mem), client.WithConnections(client.Connections{PerInstance: 4}))
		synctest.Wait() // all are up
		for range 400 {
			if err := c.Call(t.Context(), "Arith.Mul", &Args{1, 2}, nil); err != nil {
				t.Fatal(err)
			}
		}
		if len(calls) != 4 {
			t.Errorf("%d of 4 connections used", len(calls))
		}
		for _, n := range calls {
			if n < 50 {
				t.Errorf("%d of 400 calls on one of 4 connections", n)
			}
		}
	})
}

// slowDial is a network on which dialing one address takes until it is cancelled.
type slowDial struct {
	tandem.Transport
	slow    string
	dialing chan struct{} // receives when it has begun
}

func (s slowDial) Dial(ctx context.Context, address string) (net.Conn, error) {
	if address != s.slow {
		return s.Transport.Dial(ctx, address)
	}
	s.dialing <- struct{}{}
	<-ctx.Done()
	return nil, ctx.Err()
}

// within fails the test if f takes long. It uses real time, as waiting for a mutex does not
// block durably in a synctest bubble.
func within(t *testing.T, what string, f func() error) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	case <-time.After(10 * time.Second):
		t.Fatalf("%s waits for a dial that has nothing to do with it", what)
	}
}

// While one instance is being dialed everything else continues.
func TestNothingWaitsForADial(t *testing.T) {
	mem := transport.NewMemory()
	serveOn(t, mem, "a", methods)
	serveOn(t, mem, "b", methods)
	members := registry.NewMemory()
	list(t, members, "a")
	list(t, members, "slow")
	network := slowDial{mem, "slow", make(chan struct{}, 100)}
	c, err := client.Dial("memory://x", client.WithTransport("mem", network), client.WithResolver("memory", members),
		client.WithConnections(client.Connections{Timeout: time.Minute}))
	if err != nil {
		t.Fatal(err)
	}
	<-network.dialing
	to := func(id string) func() error {
		return func() error {
			return c.Call(t.Context(), "Arith.Mul", &Args{1, 2}, nil, client.Instance(id))
		}
	}
	within(t, "a call", to("a"))
	within(t, "the slow instance's call, with a deadline,", func() error {
		err := c.Call(t.Context(), "Arith.Mul", &Args{1, 2}, nil, client.Instance("slow"), client.Timeout(10*time.Millisecond))
		if tandem.CodeOf(err) != tandem.DeadlineExceeded {
			return err
		}
		return nil
	})
	list(t, members, "b")
	within(t, "an update of the list", func() error { untilOK(t, to("b")); return nil })
	within(t, "any instance's call", func() error { return c.Call(t.Context(), "Arith.Mul", &Args{1, 2}, nil) })
	within(t, "Close", c.Close)
}

// script is a registry that delivers the snapshots of a test.
type script chan registry.Snapshot

func (s script) Watch(ctx context.Context, _ registry.Target, update func(registry.Snapshot)) error {
	for {
		select {
		case snapshot := <-s:
			update(snapshot)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// When a registry loses its data and then ends, calls still go to the instances that answer.
func TestCallsOutliveTheRegistry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, members := transport.NewMemory(), make(script)
		serveOn(t, mem, "a", methods)
		c := dial(t, "script://x", client.WithTransport("mem", mem), client.WithResolver("script", members))
		for i, s := range []registry.Snapshot{
			{Instances: []tandem.Instance{at("a")}, Revision: 1},
			{Revision: 2},
			{Revision: 2, Err: errors.New("the registry is down")},
		} {
			members <- s
			for range 3 {
				if err := c.Call(t.Context(), "Arith.Mul", &Args{1, 2}, nil); err != nil {
					t.Errorf("after snapshot %d: %v", i, err)
				}
				time.Sleep(adapter.DefaultGrace)
			}
		}
	})
}

// noted is a policy that records the nodes of the last list.
type noted struct {
	balance.Policy
	nodes *sync.Map // by instance ID
}

func (n noted) Build(nodes []*balance.Node) balance.Picker {
	n.nodes.Clear()
	for _, node := range nodes {
		n.nodes.Store(node.Instance.ID, node.Stats)
	}
	return n.Policy.Build(nodes)
}

func (n noted) stats(id string) *balance.Stats {
	v, _ := n.nodes.Load(id)
	s, _ := v.(*balance.Stats)
	return s
}

// The statistics of an instance are kept when it comes back.
func TestInstanceReturnsWithItsStatistics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, members := transport.NewMemory(), registry.NewMemory()
		policy := noted{balance.RoundRobin(), new(sync.Map)}
		for _, id := range []string{"a", "b", "c"} {
			serveOn(t, mem, id, methods)
		}
		list(t, members, "a")
		list(t, members, "b")
		entry := list(t, members, "c")
		c := dial(t, "memory://x", client.WithTransport("mem", mem), client.WithResolver("memory", members), client.WithBalancer(policy))
		call := func() {
			if err := c.Call(t.Context(), "Arith.Mul", &Args{1, 2}, nil, client.Instance("c")); err != nil {
				t.Error(err)
			}
		}
		call()
		if err := entry.Close(); err != nil {
			t.Fatal(err)
		}
		if synctest.Wait(); policy.stats("c") != nil {
			t.Fatal("it is still listed")
		}
		entry = list(t, members, "c")
		synctest.Wait()
		call()
		moved := at("c") // and when it has moved
		moved.Endpoints[0].Address = "a"
		if err := entry.Update(t.Context(), moved); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		call()
		if n, _ := policy.stats("c").Calls(); n != 3 {
			t.Errorf("%d calls are remembered, want 3", n)
		}
	})
}
