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
	"github.com/tandem-rpc/tandem/protocol/netrpc"
	"github.com/tandem-rpc/tandem/registry"
)

// CoreSelector is a [ClientSelector] that has a tandem client: all selectors that
// are not a program's own. A [Client] without a codec makes its calls with it.
type CoreSelector interface {
	ClientSelector
	// Core returns the tandem client, which it makes when it is asked for it first,
	// with further options that count then.
	Core(opts ...client.Option) (*client.Client, error)
}

// Core is a tandem client that is made when it is needed, and closed when nothing
// refers to the Core any more, or by Close. Selectors hold one.
type Core struct {
	// Dial makes the client.
	Dial func(opts ...client.Option) (*client.Client, error)

	mu      sync.Mutex // held while the client connects
	client  atomic.Pointer[client.Client]
	cleanup runtime.Cleanup
}

// readySelector is a [CoreSelector] of ours, which says without waiting whether it has
// its client already.
type readySelector interface {
	Ready() *client.Client
}

// Client returns the client, and makes it the first time.
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
		go c.Close() //nolint:errcheck // nobody is left to be told; and cleanups must not wait
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

// CoreOptions are the options with which every [Core] is made: rpcx has no deadline
// for calls but a client's own, and tries as often as it was told.
func CoreOptions(mode SelectMode, dialTimeout time.Duration) []client.Option {
	opts := []client.Option{
		client.WithBalancer(mode.Policy()),
		client.WithProtocols(netrpc.HTTPClient("", nil)), // for servers of the network "http"
		client.WithTimeout(0),
		client.WithRetryBudget(1, 1000),
		client.WithHashKey(func(method string, args any) string { return fmt.Sprintf("%s/%v", method, args) }),
	}
	if dialTimeout > 0 {
		opts = append(opts, client.WithConnectTimeout(dialTimeout))
	}
	return opts
}

// Fixed returns a resolver of instances that don't change, for selectors.
func Fixed(instances []tandem.Instance) registry.Resolver { return fixed(instances) }

type fixed []tandem.Instance

func (f fixed) Watch(ctx context.Context, _ registry.Target, update func(registry.Snapshot)) error {
	update(registry.Snapshot{Instances: f, Revision: 1})
	<-ctx.Done()
	return ctx.Err()
}

// DialFixed returns a client for a fixed list of instances. It waits, as long as
// connecting may take, until each of them is connected or known not to answer, so
// that from the first call on all have their turn.
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
	var knocks sync.WaitGroup
	for _, in := range instances {
		knocks.Go(func() { // nobody has this method, which only an instance that is connected says
			_ = c.Call(ctx, "Knock.Knock", nil, nil, client.Instance(in.ID), client.FailMode(client.Failfast))
		})
	}
	knocks.Wait()
	return c, nil
}

// connectTimeout is the core's default.
const connectTimeout = 3 * time.Second

// overHTTPNetwork is rpcx's name for a CONNECT over TCP, after which servers speak
// net/rpc.
const overHTTPNetwork = "http"

// InstanceOf returns a server as an instance. One of the network "http" speaks net/rpc.
func InstanceOf(network, address string) tandem.Instance {
	ep := tandem.Endpoint{Transport: network, Address: address}
	if network == overHTTPNetwork {
		ep = tandem.Endpoint{Transport: "tcp", Address: address, Protocol: netrpc.HTTPClient("", nil).Name()}
	}
	return tandem.Instance{ID: ep.String(), Endpoints: []tandem.Endpoint{ep}}
}
