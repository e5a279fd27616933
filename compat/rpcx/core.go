package rpcx

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/protocol/netrpc"
	"github.com/tandem-rpc/tandem/registry"
)

// CoreSelector is a [ClientSelector] with a tandem client, as all selectors of this module. A
// [Client] without a codec makes its calls with the tandem client.
type CoreSelector interface {
	ClientSelector
	// Core returns the tandem client. The first call makes it, with additional options;
	// later calls ignore opts.
	Core(opts ...client.Option) (*client.Client, error)
}

// Core holds a selector's tandem client, which is made when it is first needed. It is closed by
// Close, or when the Core is garbage collected.
type Core struct {
	// Dial makes the client.
	Dial func(opts ...client.Option) (*client.Client, error)

	mu      sync.Mutex // held while the client connects
	client  atomic.Pointer[client.Client]
	cleanup runtime.Cleanup
}

// readySelector is a [CoreSelector] that can return its client without waiting: nil if it is
// not made yet.
type readySelector interface {
	Ready() *client.Client
}

// Client returns the client. The first call makes it.
func (k *Core) Client(opts ...client.Option) (*client.Client, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c := k.client.Load(); c != nil {
		return c, nil
	}
	c, err := k.Dial(opts...)
	if err != nil {
		return nil, err
	}
	k.client.Store(c)
	k.cleanup = runtime.AddCleanup(k, func(c *client.Client) {
		go c.Close() //nolint:errcheck // there is no caller for the error; a goroutine, as cleanups must not wait
	}, c)
	return c, nil
}

// Ready returns the client if there is one, and nil otherwise. It never waits.
func (k *Core) Ready() *client.Client { return k.client.Load() }

// Close closes the client. The next call makes another one.
func (k *Core) Close() error {
	k.mu.Lock()
	c := k.client.Swap(nil)
	k.cleanup.Stop()
	k.mu.Unlock()
	if c == nil {
		return nil
	}
	return c.Close()
}

// CoreOptions returns the options of every [Core]. As in rpcx, calls have no deadline other
// than the client's Timeout, and are retried as often as Retries says.
func CoreOptions(mode SelectMode, dialTimeout time.Duration) []client.Option {
	opts := []client.Option{
		client.WithBalancer(mode.Policy()),
		client.WithProtocols(netrpc.HTTPClient("", nil)), // for servers of the network "http"
		client.WithTimeout(0),
		client.WithAttempts(client.Attempts{Budget: &policy.Budget{Share: 1, PerSecond: 1000}}),
		client.WithHashKey(func(method string, args any) string { return fmt.Sprintf("%s/%v", method, args) }),
	}
	if dialTimeout > 0 {
		opts = append(opts, client.WithConnections(client.Connections{Timeout: dialTimeout}))
	}
	return opts
}

// Fixed returns a resolver of a fixed list of instances, for selectors.
func Fixed(instances []tandem.Instance) registry.Resolver { return fixed(instances) }

type fixed []tandem.Instance

func (f fixed) Watch(ctx context.Context, _ registry.Target, update func(registry.Snapshot)) error {
	update(registry.Snapshot{Instances: f, Revision: 1})
	<-ctx.Done()
	return ctx.Err()
}

// DialFixed returns a client for a fixed list of instances. It waits until each of them is
// connected or has failed, at most for dialTimeout, so that the first call already has all of
// them to choose from.
func DialFixed(instances []tandem.Instance, dialTimeout time.Duration, opts ...client.Option) (*client.Client, error) {
	c, err := client.Dial("fixed://servers", append(opts, client.WithResolver("fixed", Fixed(instances)))...)
	if err != nil || len(instances) < 2 {
		return c, err
	}
	if dialTimeout <= 0 {
		dialTimeout = connectTimeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	var probes sync.WaitGroup
	for _, in := range instances {
		probes.Go(func() { // the method does not exist: a connected instance responds so
			_ = c.Call(ctx, "Knock.Knock", nil, nil, client.Instance(in.ID), client.FailMode(client.Failfast))
		})
	}
	probes.Wait()
	return c, nil
}

// connectTimeout is the core's default.
const connectTimeout = 3 * time.Second

// overHTTPNetwork is rpcx's network for TCP with an HTTP CONNECT, after which the protocol is
// net/rpc's.
const overHTTPNetwork = "http"

// InstanceOf returns an instance for a server. With the network "http", its protocol is
// net/rpc's after a CONNECT.
func InstanceOf(network, address string) tandem.Instance {
	ep := tandem.Endpoint{Transport: network, Address: address}
	if network == overHTTPNetwork {
		ep = tandem.Endpoint{Transport: "tcp", Address: address, Protocol: netrpc.HTTPClient("", nil).Name()}
	}
	return tandem.Instance{ID: ep.String(), Endpoints: []tandem.Endpoint{ep}}
}
