package rpcx

import (
	"cmp"
	"context"
	"crypto/tls"
	"net/rpc"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/transport"
)

// DirectClientSelector always chooses the same server. Set its fields before use; after that
// it is safe for concurrent use. It must not be copied.
type DirectClientSelector struct {
	Network string // "tcp", "tcp4", "tcp6", "unix", or "http", which carries no credentials: see [Dialer]
	Address string
	// Timeout and DialTimeout bound connecting. DialTimeout takes precedence if both are
	// set.
	Timeout     time.Duration
	DialTimeout time.Duration
	// TLS, if not nil, makes the connection use TLS.
	TLS *tls.Config

	once sync.Once
	core *Core
}

// Select connects to the server.
func (s *DirectClientSelector) Select(clientCodecFunc ClientCodecFunc) (*rpc.Client, error) {
	return s.DialServer(s.Network, s.Address, clientCodecFunc)
}

// ChooseServer returns the server.
func (s *DirectClientSelector) ChooseServer() (network, address string, err error) {
	return s.Network, s.Address, nil
}

// DialServer connects to a server.
func (s *DirectClientSelector) DialServer(network, address string, f ClientCodecFunc) (*rpc.Client, error) {
	d := Dialer{Timeout: cmp.Or(s.DialTimeout, s.Timeout), TLS: s.TLS}
	return d.Dial(network, address, f)
}

// Core returns the tandem client for the server.
func (s *DirectClientSelector) Core(opts ...client.Option) (*client.Client, error) {
	s.once.Do(s.make)
	return s.core.Client(opts...)
}

// Ready returns the tandem client if there is one. It never waits.
func (s *DirectClientSelector) Ready() *client.Client {
	s.once.Do(s.make)
	return s.core.Ready()
}

// make sets the core, once.
func (s *DirectClientSelector) make() {
	timeout := cmp.Or(s.DialTimeout, s.Timeout)
	in, config := InstanceOf(s.Network, s.Address), s.TLS
	s.core = &Core{Dial: func(opts ...client.Option) (*client.Client, error) {
		all := append(CoreOptions(RandomSelect, timeout), Transports(config)...)
		return DialFixed([]tandem.Instance{in}, timeout, append(all, opts...)...)
	}}
}

// Close closes the connections. Without it, they are closed when the selector is garbage
// collected. The selector may be used again after Close.
func (s *DirectClientSelector) Close() error {
	s.once.Do(s.make)
	return s.core.Close()
}

// Transports returns the transports for the networks tcp, tcp4, tcp6 and unix, with TLS
// unless config is nil.
func Transports(config *tls.Config) []client.Option {
	var opts []client.Option
	for _, network := range []string{"tcp", "tcp4", "tcp6", "unix"} {
		t := transport.Stream(network)
		if config != nil {
			t = transport.TLS(t, config)
		}
		opts = append(opts, client.WithTransport(network, t))
	}
	return opts
}

// Dialer connects to servers for selectors. The zero value has no timeout and no TLS.
type Dialer struct {
	Timeout time.Duration
	TLS     *tls.Config
	Path    string // for the network "http"; [rpc.DefaultRPCPath] if it is empty
}

// Dial connects to a server. If f is nil, the client uses net/rpc's codec. The network "http" is
// TCP with a CONNECT to the path, which [Server.ServeByHTTP] answers.
func (d Dialer) Dial(network, address string, f ClientCodecFunc) (*rpc.Client, error) {
	ctx, cancel := context.WithCancel(context.Background())
	if d.Timeout > 0 {
		ctx, cancel = context.WithTimeout(context.Background(), d.Timeout)
	}
	defer cancel()
	conn, err := d.transport(network).Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	if f == nil {
		return rpc.NewClient(conn), nil
	}
	return rpc.NewClientWithCodec(f(conn)), nil
}

func (d Dialer) transport(network string) tandem.Transport {
	over := network == overHTTPNetwork
	if over {
		network = "tcp"
	}
	t := transport.Stream(network)
	if d.TLS != nil {
		t = transport.TLS(t, d.TLS)
	}
	if over {
		t = overHTTP{t, d.Path}
	}
	return t
}
