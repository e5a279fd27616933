// Package server (stable) answers calls.
//
//	srv := server.New()
//	srv.Register(new(Arith))                        // any net/rpc service, and more shapes
//	server.Handle(srv, "Arith.Mul", mul)            // typed, no reflection per call
//	err := srv.Serve("tcp", ":8972")
//
// A handler's context ends when the caller cancels, the deadline passes or the
// connection is lost. [tandem.FromContext] gives it the call: the peer's
// address and identity, and the metadata. [Peer] calls the caller back.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/budget"
	"github.com/tandem-rpc/tandem/internal/dispatch"
	"github.com/tandem-rpc/tandem/internal/overload"
	"github.com/tandem-rpc/tandem/internal/points"
	"github.com/tandem-rpc/tandem/internal/session"
	"github.com/tandem-rpc/tandem/internal/sniff"
	"github.com/tandem-rpc/tandem/internal/turn"
	"github.com/tandem-rpc/tandem/transport"
	"github.com/tandem-rpc/tandem/wire"
)

// Server serves methods on any number of listeners. All its methods are safe
// for concurrent use.
type Server struct {
	opts  options
	table *dispatch.Table
	env   *session.Env
	load  gauge

	memory *budget.Budget // memory of the requests
	guard  *guard         // overload control; nil for none

	matchers     []sniff.Matcher
	helpers      *helpers // makes the calls of other protocols
	turns        *turn.Watch
	methods      foreignMethods
	unrecognized unrecognized
	baggage      baggageCounts
	rules        obedience
	foreign      struct { // calls of other protocols
		running atomic.Int64
		calls   atomic.Uint64 // ever made
	}

	onPanic dispatch.PanicFunc
	absent  func() *dispatch.Method // stands for methods that do not exist; nil without plugins and interceptors

	optionsErr error // error of the options; Serve returns it

	base        context.Context // base of all handlers' contexts
	cancel      context.CancelFunc
	wg          sync.WaitGroup // accept loops and connections before their session
	acceptLoops sync.WaitGroup // accept loops

	leaving chan struct{} // closed when the server begins to end: see ending

	mu         sync.Mutex
	state      state
	ending     bool                            // the server leaves, or has left, its registries
	listeners  map[*net.Listener]struct{}      // by pointer: a user's type may not be comparable
	greeting   transport.Handshakes[*net.Conn] // connections without a session yet
	room       sync.Cond                       // on mu: one of greeting may have left, or be old enough to be closed
	sessions   map[*session.Session]acceptedConn
	conns      map[*Conn]struct{} // connections of other protocols
	lateDrains *drainer           // drains connections that come while the server drains; nil if they are refused
	listed     []*listing
	clients    clients
	past       uint64 // calls of sessions that have ended
}

type state uint8

const (
	serving state = iota
	draining
	closed
)

// ErrServerClosed is what Serve and ServeListener return after Shutdown or
// Close.
var ErrServerClosed = errors.New("server: closed")

// New returns a server without methods. It holds no resources until it serves. Options that
// can't work, or clash, are reported by everything that follows: by registering a method, by
// Serve, ServeListener and ServeProtocol.
func New(opts ...Option) *Server {
	s := &Server{
		opts:      defaults(),
		listeners: map[*net.Listener]struct{}{},
		sessions:  map[*session.Session]acceptedConn{},
		conns:     map[*Conn]struct{}{},
		leaving:   make(chan struct{}),
	}
	s.room.L = &s.mu
	for _, o := range opts {
		o(&s.opts)
	}
	s.opts.learnCodecs()
	s.matchers = matchers(s.opts.protocols)
	s.load.limit = s.opts.limiter
	s.onPanic = points.Report(s.opts.plugins, dispatch.LogPanics(s.opts.logger))
	s.base, s.cancel = context.WithCancel(context.Background())
	s.helpers = newHelpers(s.base, &s.wg)
	s.turns = turn.NewWatch(s.helpers.run)
	s.methods.server = s
	s.table = dispatch.New(dispatch.Config{
		OnPanic: s.onPanic, Wrap: s.wrap, Codecs: s.opts.codecs, OnChange: s.relist, OnRegister: s.onRegister(),
	})
	s.absent = sync.OnceValue(s.newAbsent)
	s.memory = budget.New(s.opts.memory)
	settings := session.Settings(s.opts.streamWindow)
	settings.MaxMessage = uint64(s.opts.maxMessage) //nolint:gosec // checked by the option
	settings.MaxOpen = uint64(s.opts.maxOpen)       //nolint:gosec // as above
	var loads func(*dispatch.Method) *overload.Method
	if s.opts.guarded {
		s.guard = newGuard(s.opts.overload)
		loads, s.load.gate = s.guard.loadOf, s.guard.gate
	}
	cfg := session.Config{
		Settings: settings, Codecs: s.opts.codecs, Compressors: s.opts.compressors,
		CompressAbove: s.opts.compressAbove,
		Resolve:       session.Targets(s.table, s.opts.timeout, len(s.opts.interceptors) > 0 || points.Keep(s.opts.plugins), s.absent, loads),
		Load:          func(running int64) wire.Load { return s.load.report(running + s.foreign.running.Load()) },
		OnPanic:       s.onPanic,
		OnClose:       s.forget,
		Memory:        s.memory,
		MaxDecoded:    s.opts.maxDecoded,
		Handshake:     s.opts.handshake,
		Stall:         s.opts.stall,
		Silence:       s.opts.silence,
		Logger:        s.opts.logger,
	}
	if s.guard != nil {
		cfg.Gate, cfg.Caller, cfg.Class = s.guard.gate, s.callerOf, s.classOf
	}
	s.optionsErr = errors.Join(s.opts.check(), cfg.Validate(), checkProtocols(s.opts.protocols), checkPlugins(s.opts.plugins))
	s.env = session.NewEnv(cfg)
	s.firstRules()
	if s.opts.clients && s.optionsErr == nil {
		s.optionsErr = errors.Join(s.optionsErr, s.table.Add(s.announced()))
	}
	return s
}

// wrap puts limits, interceptors and plugins round a method: once, when it is
// registered.
func (s *Server) wrap(m *dispatch.Method) (f tandem.Func, guarded bool) {
	f = m.Func
	plugins := points.OfMethod(s.opts.plugins, s.describe(m), s.onPanic)
	if guarded = plugins != nil || len(s.opts.interceptors) > 0 || s.opts.rules != nil; guarded {
		f = session.Enter(f)
	}
	if s.opts.rules != nil {
		f = s.obey(m.Name, f)
	}
	f = s.takeBaggage(f)
	if len(s.opts.interceptors) > 0 {
		f = dispatch.Guard(m.Name, tandem.Chain(f, s.opts.interceptors...), s.onPanic)
	}
	if m.MaxConcurrency > 0 {
		l := newLimiter(m.MaxConcurrency, m.MaxQueue, m.Name)
		f, m.Limiter = limit(l, &s.load)(f), l
	}
	if s.opts.limiter != nil {
		f = limit(s.opts.limiter, &s.load)(f)
	}
	if plugins != nil {
		f = plugins.Wrap(f)
	}
	return f, guarded
}

// newAbsent returns the method that is called in place of methods that do not exist:
// interceptors, rules and plugins see such calls, so that callers that they refuse don't learn
// which methods exist.
func (s *Server) newAbsent() *dispatch.Method {
	if len(s.opts.interceptors) == 0 && s.opts.rules == nil {
		return points.Absent(s.opts.plugins, nil, s.onPanic)
	}
	return points.Absent(s.opts.plugins, func(f tandem.Func) tandem.Func {
		if s.opts.rules != nil {
			f = s.obeyAbsent(f)
		}
		if len(s.opts.interceptors) > 0 {
			f = dispatch.Guard("of no such name", tandem.Chain(f, s.opts.interceptors...), s.onPanic)
		}
		if s.opts.limiter != nil {
			f = limit(s.opts.limiter, &s.load)(f)
		}
		return f
	}, s.onPanic)
}

// Serve listens on the address and serves until Shutdown or Close. network
// names a transport: "tcp" and "unix" are built in, others come with
// [WithTransport]. The error is never nil.
func (s *Server) Serve(network, address string) error {
	if err := s.checkOptions(); err != nil {
		return err
	}
	t, err := s.transport(network)
	if err != nil {
		return err
	}
	ln, err := t.Listen(s.base, address)
	if err != nil {
		return fmt.Errorf("server: %w", err)
	}
	return s.serve(ln, network)
}

// ServeListener serves the connections of ln until Shutdown or Close. It
// closes ln. The error is never nil.
func (s *Server) ServeListener(ln net.Listener) error {
	network := ln.Addr().Network()
	secured, err := s.secure(ln)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	return s.serve(secured, network)
}

func (s *Server) serve(ln net.Listener, network string) error {
	if !s.addListener(&ln) {
		return errors.Join(ErrServerClosed, ln.Close())
	}
	defer s.wg.Done()
	defer s.acceptLoops.Done()
	s.watch()
	s.followRules()
	listed, err := s.list(ln, network)
	if err != nil {
		s.removeListener(&ln)
		return errors.Join(fmt.Errorf("server: register: %w", err), ln.Close())
	}
	if len(s.table.Methods()) == 0 {
		s.log().Warn("the server has no methods yet, so every call fails: see Register", "address", ln.Addr())
	}
	err = s.acceptAll(ln)
	s.removeListener(&ln)
	if s.current() != serving {
		_ = ln.Close() // Serve returns ErrServerClosed whatever Close says
		return ErrServerClosed
	}
	s.unlist(listed)
	return errors.Join(fmt.Errorf("server: accept: %w", err), ln.Close())
}

func (s *Server) current() state {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

func (s *Server) addListener(ln *net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != serving {
		return false
	}
	s.listeners[ln] = struct{}{}
	s.wg.Add(1)
	s.acceptLoops.Add(1)
	return true
}

func (s *Server) removeListener(ln *net.Listener) {
	s.mu.Lock()
	delete(s.listeners, ln)
	s.mu.Unlock()
}

// acceptAll accepts until the listener is closed. After a temporary error, such as no file
// descriptors, it closes silent connections, and waits, longer each time.
func (s *Server) acceptAll(ln net.Listener) error {
	const first, most = 5 * time.Millisecond, time.Second
	pause := first
	for {
		c, err := ln.Accept()
		if err == nil {
			pause = first
			s.start(c)
			continue
		}
		if state := s.current(); state != serving {
			if state == draining {
				s.sweep(ln)
			}
			return err
		}
		if errors.Is(err, net.ErrClosed) || errors.Is(err, transport.ErrSecured) {
			return err
		}
		s.log().Warn("accept failed", "error", err, "retry in", pause)
		s.shed()
		select {
		case <-time.After(pause):
			pause = min(2*pause, most)
		case <-s.base.Done():
			return err
		}
	}
}

func (s *Server) log() *slog.Logger {
	if s.opts.logger != nil {
		return s.opts.logger
	}
	return slog.New(slog.DiscardHandler)
}

// start greets a new connection in a goroutine of its own. A second goroutine then reads the
// connection: the handshake has made the first one's stack too large to keep while it waits.
func (s *Server) start(c net.Conn) {
	if err := s.enter(&c); err != nil {
		s.log().Warn("connection refused", "error", err, "peer", c.RemoteAddr())
		_ = c.Close()
		return
	}
	go func() {
		defer s.wg.Done()
		if loop := s.greet(&c); loop != nil {
			s.wg.Go(loop)
		}
	}()
}

// greetOwn begins a session on a connection that speaks tandem's own protocol. first are the
// bytes that have been read already.
func (s *Server) greetOwn(c *net.Conn, v acceptedConn, first []byte) (loop func()) {
	if s.current() != serving {
		s.dismiss(c, v, ErrServerClosed)
		return nil
	}
	ses, loop, err := s.env.Accept(s.base, v.conn, first, func() error { return s.keepGreeted(c) })
	if s.adopt(c, ses, v) {
		return loop
	}
	if err != nil {
		s.turnedAway(v.conn, err)
	} else {
		ses.Close()
		err = ses.Err()
	}
	s.depart(v, err)
	return nil
}

// adopt adds a greeted connection to the server's sessions. It returns false if the connection
// has to be closed.
func (s *Server) adopt(c *net.Conn, ses *session.Session, v acceptedConn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	greeted := s.greetedLocked(c)
	if !greeted || ses == nil || ses.Err() != nil || s.state != serving { // an ended session has been forgotten already
		return false
	}
	v.age = s.ages(func(ctx context.Context) { _ = ses.Drain(ctx, "the connection is old") }) // logged as its end
	s.sessions[ses] = v
	return true
}

func (s *Server) forget(ses *session.Session, err error) {
	s.clients.remove(ses)
	s.mu.Lock()
	v := s.sessions[ses]
	delete(s.sessions, ses)
	v.stopAging()
	s.past += ses.Accepted()
	s.mu.Unlock()
	s.depart(v, err)
	s.log().Debug("connection ended", "peer", ses.Peer().Addr, "reason", err)
}

// Addrs returns the addresses that the server listens on.
func (s *Server) Addrs() []net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []net.Addr
	for ln := range s.listeners {
		list = append(list, (*ln).Addr())
	}
	return list
}
