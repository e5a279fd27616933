package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/sniff"
	"github.com/tandem-rpc/tandem/transport"
	"github.com/tandem-rpc/tandem/wire"
)

// Protocol serves connections of clients that do not speak tandem's own protocol, on the same
// ports: the first bytes of a connection decide which protocol serves it. Their calls pass the
// same interceptors and limits and reach the same methods. One value serves all connections of
// a server, concurrently.
type Protocol interface {
	// Name identifies the protocol in [tandem.Peer] and in the log. It is unique within a
	// server.
	Name() string
	// Match looks at the first bytes of a connection, one to [MaxSniff]. It must not keep them.
	// Once it has returned [Yes] or [No], it must return the same for more bytes.
	Match(first []byte) Verdict
	// Serve reads requests from c, beginning with the first bytes, hands
	// them to [Conn.Go], and returns when there are no more. An error ends the
	// calls that are still running, and is logged; otherwise the server waits
	// for them. Then it closes c. ctx is for the calls: it ends with the
	// connection.
	Serve(ctx context.Context, c *Conn) error
}

// ALPN is implemented by a [Protocol] that TLS clients may select by application-layer protocol
// negotiation (RFC 7301). The negotiated name takes precedence over the first bytes. [WithTLS]
// offers these names; a listener of your own must offer them itself.
type ALPN interface {
	// NextProtos returns the names, such as "h2".
	NextProtos() []string
}

// CodecProvider is implemented by a [Protocol] with codecs that tandem's own clients may use,
// too, and that messages of methods may need. They are added as by [WithCodecs], whose codecs
// take precedence over those of the same name.
type CodecProvider interface {
	Codecs() []tandem.Codec
}

// learnCodecs adds the codecs of the protocols to those that were given.
func (o *options) learnCodecs() {
	for _, p := range o.protocols {
		provider, ok := p.(CodecProvider)
		if !ok {
			continue
		}
		for _, c := range provider.Codecs() {
			known := func(k tandem.Codec) bool { return k.Name() == c.Name() }
			if !slices.ContainsFunc(o.codecs, known) {
				o.codecs = append(o.codecs, c)
			}
		}
	}
}

// Verdict is what [Protocol.Match] returns for the first bytes of a connection.
type Verdict = sniff.Verdict

// The verdicts.
const (
	No       = sniff.No   // the connection is not of this protocol
	NeedMore = sniff.More // too few bytes to decide
	Yes      = sniff.Yes  // the connection is of this protocol
)

// MaxSniff is how many bytes a [Protocol] sees at most before it must have
// decided; NeedMore then means No.
const MaxSniff = 1 << 10

// WithProtocols adds protocols to tandem's own, which is matched first. The others are matched
// in this order: one is chosen when all before it have returned No. Registering a method and
// serving fail if two protocols match the same first bytes or have the same ALPN name. Only the
// last may match every connection that the others leave.
func WithProtocols(p ...Protocol) Option {
	return func(o *options) {
		for _, one := range p {
			if o.want(one != nil, "WithProtocols", one, "a protocol") {
				o.protocols = append(o.protocols, one)
			}
		}
	}
}

// Unrecognized returns how many connections were closed because their first bytes matched no
// protocol, or did not arrive in time.
func (s *Server) Unrecognized() uint64 { return s.unrecognized.count.Load() }

// checkProtocols returns an error for two protocols of one name, and for two that clash.
func checkProtocols(protocols []Protocol) error {
	for i, p := range protocols {
		name := func(q Protocol) bool { return q.Name() == p.Name() }
		if p.Name() == ownProtocol || slices.ContainsFunc(protocols[:i], name) {
			return fmt.Errorf("two protocols are named %q: give WithProtocols each once", p.Name())
		}
	}
	return clash(protocols)
}

const ownProtocol = "tandem"

// matchers returns the matcher of tandem's own protocol and those of the others, in their
// order.
func matchers(protocols []Protocol) []sniff.Matcher {
	list := []sniff.Matcher{sniff.Prefix(wire.Magic)}
	for _, p := range protocols {
		list = append(list, p.Match)
	}
	return list
}

// offered returns a copy of a TLS configuration with the protocols' names for ALPN, also in the
// configurations that it has for single clients.
func offered(config *tls.Config, protocols []Protocol) *tls.Config {
	var names []string
	for _, p := range protocols {
		if a, ok := p.(ALPN); ok {
			names = append(names, a.NextProtos()...)
		}
	}
	config = withNames(config, names)
	if inner := config.GetConfigForClient; inner != nil {
		config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			of, err := inner(hello)
			if of == nil || err != nil {
				return nil, err
			}
			return withNames(of, names), nil
		}
	}
	return config
}

// withNames returns a copy of a TLS configuration with those names for ALPN after its own.
func withNames(config *tls.Config, names []string) *tls.Config {
	config = config.Clone()
	config.NextProtos = slices.Clip(config.NextProtos) // the copy shares its memory
	for _, name := range names {
		if !slices.Contains(config.NextProtos, name) {
			config.NextProtos = append(config.NextProtos, name)
		}
	}
	return config
}

// unrecognized counts connections whose protocol was not recognized.
type unrecognized struct {
	count  atomic.Uint64
	logged atomic.Pointer[time.Time] // when a connection was last logged; nil for never
}

// unrecognizedEvery is how often such a connection is logged, so that a port scan does not fill
// the log.
const unrecognizedEvery = 10 * time.Second

// turnedAway counts a connection that was closed in its handshake, and logs it if the last was
// logged long ago. It does not count connections that the client closed before it sent a byte,
// nor failed reads of those that the server closed: [Server.closeOldLocked] counts these
// itself.
func (s *Server) turnedAway(c net.Conn, err error) {
	if s.current() == closed || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe) {
		s.log().Debug("connection closed", "peer", c.RemoteAddr(), "error", err)
		return
	}
	total := s.unrecognized.count.Add(1)
	now, last := time.Now(), s.unrecognized.logged.Load()
	if last != nil && now.Sub(*last) < unrecognizedEvery || !s.unrecognized.logged.CompareAndSwap(last, &now) {
		return
	}
	s.log().Info("connection closed", "peer", c.RemoteAddr(), "error", err, "so far", total)
}

// errUnrecognized is the reason when a connection speaks no protocol of the server.
var errUnrecognized = errors.New("the first bytes are of no protocol that is served here: see WithProtocols")

// detect reads the first bytes of a connection until its protocol is known; p is nil for
// tandem's own.
func (s *Server) detect(c net.Conn) (p Protocol, first []byte, err error) {
	if err := c.SetDeadline(time.Now().Add(s.opts.handshake)); err != nil {
		return nil, nil, err
	}
	defer func() {
		if v := recover(); v != nil {
			err = s.panicked("a protocol's Match", v)
		}
	}()
	first = make([]byte, 0, MaxSniff)
	for {
		n, err := c.Read(first[len(first):cap(first)])
		first = first[:len(first)+n]
		if len(first) == 0 {
			if err != nil {
				return nil, nil, fmt.Errorf("before the first byte: %w", err)
			}
			continue
		}
		if p := s.negotiated(c); p != nil {
			return p, first, nil
		}
		last := err != nil || len(first) == cap(first)
		switch i, verdict := sniff.Decide(s.matchers, first, last); {
		case verdict == sniff.Yes && i == 0:
			return nil, first, nil
		case verdict == sniff.Yes:
			return s.opts.protocols[i-1], first, nil
		case err != nil && !errors.Is(err, io.EOF):
			return nil, nil, fmt.Errorf("after %d bytes: %w", len(first), err)
		case verdict == sniff.No:
			return nil, first, fmt.Errorf("%w: %.16q", errUnrecognized, first)
		}
	}
}

// negotiated returns the protocol that ALPN has chosen, or nil.
func (s *Server) negotiated(c net.Conn) Protocol {
	state := transport.TLSState(c)
	if state == nil || state.NegotiatedProtocol == "" {
		return nil
	}
	for _, p := range s.opts.protocols {
		if a, ok := p.(ALPN); ok && slices.Contains(a.NextProtos(), state.NegotiatedProtocol) {
			return p
		}
	}
	return nil
}

// greet detects the protocol of a new connection, and returns the function that serves it, or
// nil if the connection was closed.
func (s *Server) greet(c *net.Conn) (loop func()) {
	v, err := s.admit(*c)
	if err != nil {
		s.dismiss(c, v, err)
		return nil
	}
	if len(s.opts.protocols) == 0 {
		return s.greetOwn(c, v, nil)
	}
	v.conn = transport.Wrap(v.conn)
	p, first, err := s.detect(v.conn)
	if err != nil {
		err = transport.AnswerMismatch(v.conn, first, err)
	}
	if err == nil && p == nil {
		return s.greetOwn(c, v, first)
	}
	if err == nil {
		err = v.conn.SetDeadline(time.Time{})
	}
	if err != nil {
		s.turnedAway(v.conn, err)
		s.dismiss(c, v, err)
		return nil
	}
	fresh := s.newConn(v, p, first)
	if !s.adoptConn(c, fresh) {
		fresh.end()
		s.depart(v, ErrServerClosed)
		return nil
	}
	return func() { s.serveConn(fresh, p) }
}

// adoptConn adds a connection of another protocol to those of the server. It returns false if
// the connection has to be closed.
func (s *Server) adoptConn(c *net.Conn, fresh *Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	greeted := s.greetedLocked(c)
	if !greeted || !s.welcomesLocked() {
		return false
	}
	s.conns[fresh] = struct{}{}
	if s.lateDrains != nil {
		fresh.drain() // its first answer says that it is the last
		s.lateDrains.begin(nil, []*Conn{fresh})
	}
	fresh.accepted.age = s.ages(func(ctx context.Context) { _ = fresh.await(ctx) }) // logged as its end
	return true
}

// serveConn serves a connection of another protocol until it has ended.
func (s *Server) serveConn(c *Conn, p Protocol) {
	var err error
	defer func() { s.endConn(c, p, err) }() // also if a method of GoHere has ended this goroutine
	err = serveGuarded(c, p)
}

// endConn ends a connection whose Serve has returned, with err.
func (s *Server) endConn(c *Conn, p Protocol, err error) {
	defer s.depart(c.accepted, err)
	if err != nil && !c.isDraining() {
		c.cancel()
		s.log().Debug("connection ended", "peer", c.RemoteAddr(), "protocol", p.Name(), "reason", err)
	}
	c.wait()
	c.closeLingering()
	s.mu.Lock()
	delete(s.conns, c)
	c.accepted.stopAging()
	s.mu.Unlock()
	close(c.over)
}

// serveGuarded calls p.Serve, and returns a panic of it as an error.
func serveGuarded(c *Conn, p Protocol) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = c.server.panicked(p.Name()+"'s Serve", v)
		}
	}()
	return p.Serve(c.ctx, c)
}
