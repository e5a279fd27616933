package rpcx

import (
	"testing"
	"time"

	"github.com/smallnest/rpcx/server"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	tandemclient "github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/protocol/rpcx"
	tandemserver "github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// A tandem client finds rpcx servers, listed by rpcx's own plugin, and a tandem server with
// rpcx's protocol in one registry. It calls them by weight, until one of them has left.
func TestTandemCallsRPCXServers(t *testing.T) {
	on(t, func(t *testing.T, k kind, b *backend) {
		blue, _ := serve(t, "blue", func(address string) server.Plugin { return k.plugin(t, b, address) }, "weight=3")
		serve(t, "green", func(address string) server.Plugin { return k.plugin(t, b, address) }, "weight=1")
		r := k.open(t, b)
		register(t, r, rpcxInstance(serveTandem(t, "ours"), "", 1))
		c, err := tandemclient.Dial(b.target(), tandemclient.WithResolver(b.scheme, r), tandemclient.WithProtocols(rpcx.Client()),
			tandemclient.WithBalancer(balance.RoundRobin()), tandemclient.WithTimeout(time.Minute), tandemclient.WithFailMode(tandem.Failover))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for end := time.Now().Add(time.Minute); ; { // until all three are listed and connected
			got := asks(t, c, 10)
			if got["blue"] == 6 && got["green"] == 2 && got["ours"] == 2 {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("calls by weight: %v, want 6 of blue, 2 of green and 2 of ours", got)
			}
			time.Sleep(50 * time.Millisecond) // the registry is another process
		}
		if err := blue.UnregisterAll(); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) { // the registry is another process
			if got := asks(t, c, 4); got["green"] == 2 && got["ours"] == 2 {
				break
			} else if time.Now().After(end) {
				t.Fatalf("calls when blue has left: %v", got)
			}
		}
	})
}

// asks makes n calls with tandem's client and counts the answers of each server.
func asks(t *testing.T, c *tandemclient.Client, n int) map[string]int {
	t.Helper()
	by := map[string]int{}
	for range n {
		who, err := tandemclient.Invoke[string](t.Context(), c, service+".Are", "", tandemclient.Idempotent())
		if err != nil {
			t.Fatalf("after the answers %v: %v", by, err)
		}
		by[*who]++
	}
	return by
}

// serveTandem runs a tandem server with rpcx's protocol.
func serveTandem(t *testing.T, name string) (address string) {
	t.Helper()
	srv := tandemserver.New(tandemserver.WithProtocols(rpcx.New()))
	if err := srv.RegisterName(service, &who{name}); err != nil {
		t.Fatal(err)
	}
	ln, err := transport.TCP().Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.ServeListener(ln) }()
	t.Cleanup(func() {
		srv.Close()
		<-ended
	})
	return ln.Addr().String()
}
