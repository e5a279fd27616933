package registries

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/rpc"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/compat/rpcx"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/consul"
	"github.com/tandem-rpc/tandem/registry/etcd"
	"github.com/tandem-rpc/tandem/registry/zookeeper"
)

// The selectors. Their methods are those of [Selector].
type (
	// EtcdClientSelector chooses among the servers that etcd lists.
	EtcdClientSelector struct{ *Selector }
	// ZooKeeperClientSelector chooses among the servers that ZooKeeper lists.
	ZooKeeperClientSelector struct{ *Selector }
	// ConsulClientSelector chooses among the servers that Consul lists.
	ConsulClientSelector struct{ *Selector }
)

// NewEtcdClientSelector returns a selector of the servers of one service: basePath is
// "/rpcx/Arith". The session timeout is ignored: tandem has its own.
func NewEtcdClientSelector(etcdServers []string, basePath string, _ time.Duration, sm rpcx.SelectMode, dialTimeout time.Duration) *EtcdClientSelector {
	target := "etcd://" + hosts(etcdServers) + "/" + strings.Trim(basePath, "/")
	return &EtcdClientSelector{newSelector(target, etcd.Resolver(), sm, dialTimeout)}
}

// NewZooKeeperClientSelector returns a selector of the servers of one service: basePath
// is "/rpcx/Arith". The session timeout is ignored: tandem has its own.
func NewZooKeeperClientSelector(zkServers []string, basePath string, _ time.Duration, sm rpcx.SelectMode, dialTimeout time.Duration) *ZooKeeperClientSelector {
	target := "zookeeper://" + hosts(zkServers) + "/" + strings.Trim(basePath, "/")
	return &ZooKeeperClientSelector{newSelector(target, zookeeper.Resolver(), sm, dialTimeout)}
}

// NewConsulClientSelector returns a selector of the servers of one service: serviceName is
// "Arith", or, with a base path other than "/rpcx", "/base/Arith". The session timeout is
// ignored: tandem has its own.
func NewConsulClientSelector(consulAddress, serviceName string, _ time.Duration, sm rpcx.SelectMode, dialTimeout time.Duration) *ConsulClientSelector {
	path := "/" + strings.Trim(serviceName, "/")
	if strings.LastIndexByte(path, '/') == 0 {
		path = consulBase("") + path
	}
	return &ConsulClientSelector{newSelector("consul://"+hosts([]string{consulAddress})+path, consul.Resolver(), sm, dialTimeout)}
}

// Selector chooses among the servers that a registry lists. It is safe for concurrent use by
// any number of clients.
type Selector struct {
	core   *rpcx.Core
	dialer rpcx.Dialer
}

func newSelector(target string, resolver registry.Resolver, sm rpcx.SelectMode, dialTimeout time.Duration) *Selector {
	scheme, _, _ := strings.Cut(target, "://")
	return &Selector{
		dialer: rpcx.Dialer{Timeout: dialTimeout},
		core: &rpcx.Core{Dial: func(opts ...client.Option) (*client.Client, error) {
			all := append(rpcx.CoreOptions(sm, dialTimeout), rpcx.Transports(nil)...)
			all = append(all, client.WithTimeout(listTimeout), client.WithResolver(scheme, resolver))
			return client.Dial(target, append(all, opts...)...)
		}},
	}
}

// listTimeout is the timeout of a call without a deadline: the registry may never respond.
const listTimeout = time.Minute

// Core returns the tandem client for the servers.
func (s *Selector) Core(opts ...client.Option) (*client.Client, error) { return s.core.Client(opts...) }

// Ready returns the tandem client if there is one. It never waits.
func (s *Selector) Ready() *client.Client { return s.core.Ready() }

// Select connects to a server.
func (s *Selector) Select(clientCodecFunc rpcx.ClientCodecFunc) (*rpc.Client, error) {
	network, address, err := s.ChooseServer()
	if err != nil {
		return nil, err
	}
	return s.DialServer(network, address, clientCodecFunc)
}

// ChooseServer returns one of the servers that can be reached, at random, and waits
// until there is one.
func (s *Selector) ChooseServer() (network, address string, err error) {
	c, err := s.core.Client()
	if err != nil {
		return "", "", err
	}
	const unknownMethod = "Knock.Knock" // does not exist: only a connected instance can respond so
	ctx, cancel := context.WithTimeout(context.Background(), listTimeout)
	defer cancel()
	_ = c.Call(ctx, unknownMethod, nil, nil)
	var there []string
	for _, in := range c.Describe(unknownMethod).Attempts[0].Instances {
		if in.Unusable == "" {
			there = append(there, in.ID)
		}
	}
	if len(there) == 0 {
		return "", "", errors.New("registries: no server can be reached")
	}
	network, address, ok := strings.Cut(there[rand.IntN(len(there))], "://")
	if !ok {
		return "", "", errors.New("registries: a server is listed under a name that is not its address")
	}
	return network, address, nil
}

// DialServer connects to a server.
func (s *Selector) DialServer(network, address string, f rpcx.ClientCodecFunc) (*rpc.Client, error) {
	return s.dialer.Dial(network, address, f)
}

// Close closes the connections and ends the registry's watch. Without it, this happens when the
// selector is garbage collected. The selector may be used again after Close.
func (s *Selector) Close() error { return s.core.Close() }
