package client_test

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/registry/dns"
	"github.com/tandem-rpc/tandem/transport"
)

// names is a name server with one name.
type names struct {
	dns.Lookup // not called for services

	mu    sync.Mutex
	addrs []netip.Addr
	asked int
}

func (n *names) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked++
	return n.addrs, nil
}

// move gives the name other addresses, and returns the number of lookups.
func (n *names) move(to ...string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addrs = nil
	for _, addr := range to {
		n.addrs = append(n.addrs, netip.MustParseAddr(addr))
	}
	return n.asked
}

// A lookup is made when the last connection ends, whatever the interval of lookups is, and none
// while there is a connection.
func TestDNSIsAskedWhenTheLastConnectionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, mem := &names{}, transport.NewMemory()
		server.move("10.0.0.1", "10.0.0.2")
		first, _ := serveOn(t, mem, net.JoinHostPort("10.0.0.1", "80"), methods)
		second, _ := serveOn(t, mem, net.JoinHostPort("10.0.0.2", "80"), methods)
		serveOn(t, mem, net.JoinHostPort("10.0.0.3", "80"), methods)
		c := dial(t, "dns://svc:80?interval=1h&transport=mem", client.WithTransport("mem", mem),
			client.WithResolver("dns", dns.ResolverWith(server)), client.WithFailMode(client.Failover))
		mul := func(when string) {
			if err := c.Call(t.Context(), "Arith.Mul", &Args{1, 2}, nil, client.Idempotent()); err != nil {
				t.Errorf("%s: %v", when, err)
			}
		}
		mul("both servers are there")
		time.Sleep(10 * time.Minute)
		first.Close()
		time.Sleep(time.Minute)
		mul("one is left")
		if asked := server.move("10.0.0.3"); asked != 1 {
			t.Errorf("asked %d times while there was a connection", asked)
		}
		second.Close()
		time.Sleep(time.Second) // of virtual time: the lookup, and the connection
		mul("a second after the last has gone")
	})
}
