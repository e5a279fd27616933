// Package clientselector has the selectors of rpcx's first version that choose among
// several servers. Those that ask a registry are in compat/rpcx/registries.
package clientselector

import (
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net/rpc"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/compat/rpcx"
)

// ServerPair is where a server listens.
type ServerPair struct {
	Network string // "tcp", "tcp4", "tcp6" or "unix"
	Address string
	Weight  int // for WeightedRoundRobin and RandomSelect; 0 means 100
}

// MultiClientSelector chooses among fixed servers. It is safe for concurrent use, and
// serves any number of clients: whose turn it is goes on from one to the next.
type MultiClientSelector struct {
	servers []ServerPair
	mode    rpcx.SelectMode
	dialer  rpcx.Dialer
	core    *rpcx.Core

	mu   sync.Mutex
	next int // whose turn it is, of calls with codecs of the user's
}

// NewMultiClientSelector returns a selector among servers. dialTimeout is how long
// connecting to one may take; 0 leaves that to the defaults.
func NewMultiClientSelector(servers []ServerPair, sm rpcx.SelectMode, dialTimeout time.Duration) *MultiClientSelector {
	return NewTLSMultiClientSelector(servers, sm, dialTimeout, nil)
}

// NewTLSMultiClientSelector is [NewMultiClientSelector] with TLS on the connections,
// unless config is nil.
func NewTLSMultiClientSelector(servers []ServerPair, sm rpcx.SelectMode, dialTimeout time.Duration, config *tls.Config) *MultiClientSelector {
	s := &MultiClientSelector{servers: servers, mode: sm, dialer: rpcx.Dialer{Timeout: dialTimeout, TLS: config}}
	var instances []tandem.Instance
	for _, p := range servers {
		in := rpcx.InstanceOf(p.Network, p.Address)
		in.Weight = p.Weight
		instances = append(instances, in)
	}
	s.core = &rpcx.Core{Dial: func(opts ...client.Option) (*client.Client, error) {
		all := append(rpcx.CoreOptions(sm, dialTimeout), rpcx.Transports(config)...)
		return rpcx.DialFixed(instances, dialTimeout, append(all, opts...)...)
	}}
	return s
}

// Core returns the tandem client for the servers.
func (s *MultiClientSelector) Core(opts ...client.Option) (*client.Client, error) {
	return s.core.Client(opts...)
}

// Ready returns the tandem client if there is one. It never waits.
func (s *MultiClientSelector) Ready() *client.Client { return s.core.Ready() }

// Select connects to the server that is chosen.
func (s *MultiClientSelector) Select(clientCodecFunc rpcx.ClientCodecFunc) (*rpc.Client, error) {
	network, address, err := s.ChooseServer()
	if err != nil {
		return nil, err
	}
	return s.DialServer(network, address, clientCodecFunc)
}

// ChooseServer returns the server whose turn it is: in turn for the modes that go
// round, and at random for all others, which need to know more than a list.
func (s *MultiClientSelector) ChooseServer() (network, address string, err error) {
	if len(s.servers) == 0 {
		return "", "", errors.New("clientselector: no servers")
	}
	i := rand.IntN(len(s.servers))
	if s.mode == rpcx.RoundRobin || s.mode == rpcx.WeightedRoundRobin {
		s.mu.Lock()
		i = s.next % len(s.servers)
		s.next++
		s.mu.Unlock()
	}
	return s.servers[i].Network, s.servers[i].Address, nil
}

// DialServer connects to a server.
func (s *MultiClientSelector) DialServer(network, address string, f rpcx.ClientCodecFunc) (*rpc.Client, error) {
	return s.dialer.Dial(network, address, f)
}

// Close closes the connections, which otherwise happens when nothing refers to the
// selector any more. It may be used again.
func (s *MultiClientSelector) Close() error { return s.core.Close() }
