package client_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/client"
)

// Rendezvous is a custom policy. It sends calls with equal keys to the same instance, the one
// whose hash with the key is the largest, so that the instance can cache by key. When an
// instance goes, only its own keys move.
type Rendezvous struct{}

// Name returns the policy's name.
func (Rendezvous) Name() string { return "rendezvous" }

// Needs says that the policy uses nothing but the nodes.
func (Rendezvous) Needs() balance.Needs { return balance.Needs{} }

// Build returns a picker, which is just the nodes.
func (Rendezvous) Build(nodes []*balance.Node) balance.Picker { return rendezvous(nodes) }

type rendezvous []*balance.Node

// Pick chooses among the nodes that are usable.
func (r rendezvous) Pick(call *tandem.Call, usable func(*balance.Node) bool) (best *balance.Node) {
	var most [sha256.Size]byte
	for _, n := range r {
		hash := sha256.Sum256([]byte(n.Instance.ID + " " + call.HashKey))
		if usable(n) && (best == nil || bytes.Compare(hash[:], most[:]) > 0) {
			best, most = n, hash
		}
	}
	return best
}

func ExampleHashKey() {
	network, stop := ready()
	defer stop()
	c, err := client.Dial("static://a,b?transport=mem", client.WithTransport("mem", network), client.WithBalancer(Rendezvous{}))
	check(err)
	defer c.Close()
	for _, id := range []string{"mem://a", "mem://b"} {
		check(c.Call(context.Background(), "Server.Name", "", nil, client.Instance(id))) // both are connected
	}
	for _, user := range []string{"ann", "ann", "ann", "bob", "bob", "cid"} {
		name, err := client.Invoke[string](context.Background(), c, "Server.Name", "", client.HashKey(user))
		check(err)
		fmt.Println(user, *name)
	}
	// Output:
	// ann b
	// ann b
	// ann b
	// bob a
	// bob a
	// cid b
}
