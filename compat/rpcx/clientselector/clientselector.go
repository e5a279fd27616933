// Package clientselector (experimental) has the selectors of rpcx's first version for a fixed list of
// servers. Those with a registry are in compat/rpcx/registries.
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

// ServerPair is the address of a server.
type ServerPair struct {
	Network string // "tcp", "tcp4", "tcp6" or "unix"
	Address string
	Weight  int // for WeightedRoundRobin and RandomSelect; 0 means 100
}

// MultiClientSelector chooses among fixed servers. It is safe for concurrent use by any
// number of clients, which share the round-robin position.
type MultiClientSelector struct {
	servers []ServerPair
	mode    rpcx.SelectMode
	dialer  rpcx.Dialer
	core    *rpcx.Core

	mu   sync.Mutex
	next int // index of the next server, for calls with the user's own codec
}

// NewMultiClientSelector returns a selector among servers. dialTimeout bounds connecting to
// one of them; 0 means the defaults.
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

// Select chooses a server and connects to it.
func (s *MultiClientSelector) Select(clientCodecFunc rpcx.ClientCodecFunc) (*rpc.Client, error) {
	network, address, err := s.ChooseServer()
	if err != nil {
		return nil, err
	}
	return s.DialServer(network, address, clientCodecFunc)
}

// ChooseServer returns the next server for the round-robin modes, and a random one for all
// others, which a list of addresses is not enough for.
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

// Close closes the connections. Without it, they are closed when the selector is garbage
// collected. The selector may be used again after Close.
func (s *MultiClientSelector) Close() error { return s.core.Close() }
