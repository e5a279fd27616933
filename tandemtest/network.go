// Package tandemtest (experimental) tests programs that use tandem: servers and clients on a network in
// memory, a registry for each service, connections with faults, and a check for leaked
// goroutines. It opens no socket, and works under testing/synctest.
//
//	network := tandemtest.NewNetwork(t)
//	server := network.Serve("cart", func(s *server.Server) error { return s.Register(new(Cart)) })
//	client := network.Dial("cart")
//	server.Stall() // and see what the calls do
package tandemtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

const (
	transportName = "tandemtest"
	scheme        = "tandemtest-service" // scheme of targets
)

// A Network connects the clients and servers of a test in memory. It is safe for concurrent
// use.
type Network struct {
	t      testing.TB
	memory *transport.Memory
	relays sync.WaitGroup

	mu       sync.Mutex
	services map[string]*service
	links    map[string]*link // links by the address of the server
	closed   bool
}

// service is the list of the instances of a service.
type service struct {
	list    *registry.Memory
	started int // number of instances that were started
}

// NewNetwork returns a network that ends with the test. It must outlive what uses it: create
// it first.
func NewNetwork(t testing.TB) *Network {
	n := &Network{t: t, memory: transport.NewMemory(), services: make(map[string]*service), links: make(map[string]*link)}
	t.Cleanup(n.close)
	return n
}

func (n *Network) close() {
	n.mu.Lock()
	n.closed = true
	for _, l := range n.links {
		l.cut()
	}
	n.mu.Unlock()
	n.relays.Wait()
}

// Registry returns the registry of a service: [registry.Memory.Fail] makes it fail.
func (n *Network) Registry(name string) *registry.Memory {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.serviceLocked(name).list
}

func (n *Network) serviceLocked(name string) *service {
	if n.services[name] == nil {
		n.services[name] = &service{list: registry.NewMemory()}
	}
	return n.services[name]
}

// Serve starts an instance of a service, and returns when it is listed in the service's
// registry. register registers the methods. The instances of the service "cart" have the IDs
// cart-1, cart-2 and so on. The server is shut down at the end of the test, which fails if
// calls are still running ten seconds later.
func (n *Network) Serve(name string, register func(*server.Server) error, opts ...server.Option) *Server {
	n.t.Helper()
	n.mu.Lock()
	svc := n.serviceLocked(name)
	svc.started++
	id := fmt.Sprintf("%s-%d", name, svc.started)
	l := newLink()
	n.links[id] = l
	n.mu.Unlock()

	own := []server.Option{server.WithTransport(transportName, n.Transport()), server.WithRegistrar(svc.list, tandem.Instance{ID: id})}
	s := &Server{Server: server.New(slices.Concat(own, opts)...), ID: id, t: n.t, link: l}
	if err := register(s.Server); err != nil {
		n.t.Fatalf("tandemtest: registering the methods of %s: %v", id, err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Server.Serve(transportName, id) }()
	listed, stop := awaitListed(svc.list, id)
	defer stop()
	select {
	case err := <-served:
		n.t.Fatalf("tandemtest: serving %s: %v", id, err)
	case <-listed:
	}
	n.t.Cleanup(func() {
		s.Stop()
		if err := <-served; !errors.Is(err, server.ErrServerClosed) {
			n.t.Errorf("tandemtest: serving %s: %v", id, err)
		}
	})
	return s
}

// awaitListed returns a channel that is closed when the registry lists the instance, or fails.
// stop ends the wait.
func awaitListed(list *registry.Memory, id string) (listed <-chan struct{}, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		_ = list.Watch(ctx, registry.Target{}, func(s registry.Snapshot) { // ends with ctx only
			if s.Err != nil || slices.ContainsFunc(s.Instances, func(in tandem.Instance) bool { return in.ID == id }) {
				cancel()
			}
		})
		close(done)
	}()
	return done, func() {
		cancel()
		<-ended
	}
}

// Dial returns a client of a service, whose instances may start later. It is closed at the end
// of the test.
func (n *Network) Dial(name string, opts ...client.Option) *client.Client {
	n.t.Helper()
	c, err := client.Dial(n.Target(name), slices.Concat(n.Options(), opts)...)
	if err != nil {
		n.t.Fatalf("tandemtest: dialing %s: %v", name, err)
	}
	n.t.Cleanup(func() {
		if err := c.Close(); err != nil {
			n.t.Errorf("tandemtest: closing a client of %s: %v", name, err)
		}
	})
	return c
}

// Target returns the target of a service, for programs that call [client.Dial] themselves,
// with the network's [Network.Options].
func (n *Network) Target(name string) string { return scheme + "://" + name }

// Options returns the options of a client of this network.
func (n *Network) Options() []client.Option {
	return []client.Option{client.WithTransport(transportName, n.Transport()), client.WithResolver(scheme, resolver{n})}
}

// resolver finds the instances of a target of [Network.Target].
type resolver struct{ network *Network }

func (r resolver) Watch(ctx context.Context, target registry.Target, update func(registry.Snapshot)) error {
	return r.network.Registry(target.Authority).Watch(ctx, target, update)
}

// Transport returns the network as a transport. The address of a server that
// [Network.Serve] started is its ID; other servers may listen at other addresses, and have
// connections without faults.
func (n *Network) Transport() tandem.Transport { return network{n} }

// network is the transport of a Network.
type network struct{ *Network }

func (n network) Listen(ctx context.Context, address string) (net.Listener, error) {
	return n.memory.Listen(ctx, address)
}

func (n network) Dial(ctx context.Context, address string) (net.Conn, error) {
	n.mu.Lock()
	l := n.links[address]
	n.mu.Unlock()
	if l == nil {
		return n.memory.Dial(ctx, address)
	}
	if err := l.admit(ctx); err != nil {
		return nil, &net.OpError{Op: "dial", Net: transportName, Err: err}
	}
	far, err := n.memory.Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	near, inner := transport.Pipe(far.LocalAddr(), far.RemoteAddr())
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed || !l.relay(&n.relays, inner, far) {
		return nil, &net.OpError{Op: "dial", Net: transportName, Err: errors.Join(errRefused, inner.Close(), far.Close())}
	}
	return near, nil
}

// CheckLeaks fails the test if goroutines that began after this call still run at its end:
// call it before anything else. A test that runs beside others can't use it.
func CheckLeaks(t testing.TB) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
}
