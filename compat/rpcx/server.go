package rpcx

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/codec/msgpack"
	rpc "github.com/tandem-rpc/tandem/compat/netrpc"
	"github.com/tandem-rpc/tandem/compat/rpcx/plugin"
	"github.com/tandem-rpc/tandem/protocol/jsonrpc"
	"github.com/tandem-rpc/tandem/protocol/netrpc"
	protocol "github.com/tandem-rpc/tandem/protocol/rpcx"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// AuthorizationFunc decides whether a call may be made. Its error is returned to the caller.
type AuthorizationFunc func(p *plugin.AuthorizationAndServiceMethod) error

// Server serves services. Its fields are set before it serves; its methods are safe
// for concurrent use.
type Server struct {
	// ServerCodecFunc makes the codecs of connections without tandem's own protocol. If it is
	// nil, these are served with net/rpc, JSON-RPC or today's rpcx.
	ServerCodecFunc ServerCodecFunc
	// PluginContainer has the plugins. Plugins that are added after the server has begun to
	// serve have no effect.
	PluginContainer *PluginContainer
	// TLSConfig, if not nil, makes all connections use TLS.
	TLSConfig *tls.Config
	// Options are for the tandem server. They are applied after those of the Server.
	Options []server.Option

	auth     atomic.Pointer[AuthorizationFunc]
	building sync.Mutex // held while plugins return options and see services; mu is not held then

	mu         sync.Mutex  // not held while the program's code runs
	checker    *rpc.Server // checks services that are registered before core exists
	registered []registration
	core       *rpc.Server // nil before build
	web        []*http.Server
	closed     bool
	address    string
	background sync.WaitGroup // goroutines of Start
}

type registration struct {
	name     string
	rcvr     any
	metadata []string
}

// handshake is how long a connection may send nothing: clients of net/rpc may connect some time
// before their first call.
const handshake = time.Minute

// NewServer returns a server without services.
func NewServer() *Server {
	return &Server{PluginContainer: new(PluginContainer), checker: rpc.NewServerWith(server.WithLogger(slog.New(slog.DiscardHandler)))}
}

// Auth sets the function that decides which calls may be made. It runs before the arguments are
// decoded, for every protocol. The error is always nil.
func (s *Server) Auth(fn AuthorizationFunc) error {
	s.auth.Store(&fn)
	return nil
}

// RegisterName serves the methods of rcvr that have net/rpc's signature; a context may come
// first. metadata is for plugins.
func (s *Server) RegisterName(name string, rcvr any, metadata ...string) error {
	r := registration{name, rcvr, metadata}
	s.mu.Lock()
	core := s.core
	if core == nil {
		defer s.mu.Unlock()
		if err := s.checker.RegisterWith(name, rcvr); err != nil {
			return err
		}
		s.registered = append(s.registered, r)
		return nil
	}
	s.mu.Unlock() // a plugin may be slow, and may call the server
	return s.register(core, r)
}

// Register is [Server.RegisterName] under the name of rcvr's type.
func (s *Server) Register(rcvr any, metadata ...string) error {
	return s.RegisterName("", rcvr, metadata...)
}

func (s *Server) register(core *rpc.Server, r registration) error {
	if err := core.RegisterWith(r.name, r.rcvr); err != nil {
		return err
	}
	return s.PluginContainer.registered(r)
}

// Core returns the Server's tandem server, and makes it if there is none yet: plugins and
// options that are added later have no effect. Plugins must not call Core while it is made.
func (s *Server) Core() (*server.Server, error) {
	core, err := s.build()
	if err != nil {
		return nil, err
	}
	return core.Core(), nil
}

// build returns the Server's core. The first call makes it.
func (s *Server) build() (*rpc.Server, error) {
	s.building.Lock()
	defer s.building.Unlock()
	if core, err := s.built(); core != nil || err != nil {
		return core, err
	}
	opts, err := s.options()
	if err != nil {
		return nil, err
	}
	core := rpc.Over(server.New(opts...))
	for known := 0; ; known++ {
		r, err := s.next(core, known)
		if err == nil && r != nil {
			err = s.register(core, *r)
		}
		if err != nil {
			return nil, errors.Join(err, core.Core().Close())
		}
		if r == nil {
			return core, nil
		}
	}
}

// built returns the Server's core, nil if there is none yet.
func (s *Server) built() (*rpc.Server, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, server.ErrServerClosed
	}
	return s.core, nil
}

// next returns the first registration that core does not have; plugins may have added some. If
// there is none, next makes core the Server's core and returns nil.
func (s *Server) next(core *rpc.Server, known int) (*registration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, server.ErrServerClosed
	case known < len(s.registered):
		return &s.registered[known], nil
	}
	s.core, s.registered = core, nil
	return nil, nil //nolint:nilnil // there is none
}

// options returns the options of the tandem server.
func (s *Server) options() ([]server.Option, error) {
	opts := []server.Option{
		server.WithHandshakeTimeout(handshake),
		server.WithCodecs(msgpack.Codec()),
		server.WithPlugins(authorizer{s}),
	}
	if s.TLSConfig != nil {
		opts = append(opts, server.WithTLS(s.TLSConfig))
	}
	if s.ServerCodecFunc == nil {
		opts = append(opts, server.WithProtocols(netrpc.New(), jsonrpc.New(), protocol.New()))
	} else {
		opts = append(opts, server.WithProtocols(s.ownProtocol(nil)))
	}
	for _, p := range s.PluginContainer.GetAll() {
		more, err := optionsOf(p)
		if err != nil {
			return nil, err
		}
		opts = append(opts, more...)
	}
	return append(opts, s.Options...), nil
}

// authorizer is a plugin that calls the authorization function, if there is one.
type authorizer struct{ *Server }

// Intercept refuses calls.
func (s authorizer) Intercept(next tandem.Func) tandem.Func {
	return func(ctx context.Context, call *tandem.Call) error {
		if err := s.refusal(call); err != nil {
			return err
		}
		return next(ctx, call)
	}
}

// refusal returns the function's error with its text unchanged, nil if the call may be made.
func (s authorizer) refusal(call *tandem.Call) error {
	auth := s.auth.Load()
	if auth == nil || *auth == nil {
		return nil
	}
	err := (*auth)(credentialsOf(call))
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*tandem.Error](err); ok {
		return err
	}
	code := tandem.Unauthenticated
	if call.Peer.Protocol != "tandem" { // in other protocols an error is only a text, which would contain the code's name
		code = tandem.Unknown
	}
	return &tandem.Error{Code: code, Message: err.Error()}
}

// Serve listens on the address and serves until Close. The network is "tcp", "tcp4",
// "tcp6" or "unix". The error is never nil.
func (s *Server) Serve(network, address string) error {
	ln, err := s.listen(network, address)
	if err != nil {
		return err
	}
	return s.ServeListener(ln)
}

// Start is Serve in the background: it returns when the server listens. The error of serving
// is dropped.
func (s *Server) Start(network, address string) error {
	ln, err := s.listen(network, address)
	if err != nil {
		return err
	}
	if _, err := s.build(); err != nil {
		return errors.Join(err, ln.Close())
	}
	s.background.Go(func() { _ = s.ServeListener(ln) })
	return nil
}

// ServeTLS is [Server.Serve] with TLS.
func (s *Server) ServeTLS(network, address string, config *tls.Config) error {
	ln, err := transport.TLS(transport.Stream(network), config).Listen(context.Background(), address)
	if err != nil {
		return err
	}
	return s.ServeListener(ln)
}

func (s *Server) listen(network, address string) (net.Listener, error) {
	ln, err := transport.Stream(network).Listen(context.Background(), address) // the tandem server adds TLS
	if err == nil {
		s.mu.Lock()
		s.address = ln.Addr().String()
		s.mu.Unlock()
	}
	return ln, err
}

// ServeListener serves the connections of ln until Close. The error is never nil.
func (s *Server) ServeListener(ln net.Listener) error {
	core, err := s.build()
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	return core.Core().ServeListener(ln)
}

// Address returns the address that the server listens on, "" before it does. Of several, it
// returns the last.
func (s *Server) Address() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.address
}

// Close closes the server: it is removed from its registries, and calls in flight fail.
func (s *Server) Close() error {
	s.mu.Lock()
	core, web := s.core, s.web
	s.closed = true
	s.mu.Unlock()
	var err error
	for _, w := range web {
		err = errors.Join(err, w.Close())
	}
	if core != nil {
		err = errors.Join(err, core.Core().Close())
	}
	s.background.Wait()
	return err
}
