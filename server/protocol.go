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

// Protocol serves connections of clients that do not speak tandem's own
// protocol, on the same ports: the first bytes of a connection decide whose it
// is. Their calls pass the same interceptors and limits and reach the same
// methods. One value serves all connections of a server, concurrently.
type Protocol interface {
	// Name is what [tandem.Peer] and the log call it. A server has one
	// protocol of a name.
	Name() string
	// Match looks at the first bytes of a connection, one to [MaxSniff].
	// It must not keep them, and once it has said [Yes] or [No] more bytes
	// must not change that.
	Match(first []byte) Verdict
	// Serve reads requests from c, beginning with the first bytes, hands
	// them to [Conn.Go], and returns when there are no more. An error ends the
	// calls that are still running, and is logged; otherwise the server waits
	// for them. Then it closes c. ctx is for the calls: it ends with the
	// connection.
	Serve(ctx context.Context, c *Conn) error
}

// ALPN is what a [Protocol] implements beside it that TLS clients may ask for by
// application-layer protocol negotiation (RFC 7301). What was negotiated goes
// before the first bytes. [WithTLS] offers these names; a listener of your own
// must offer them itself.
type ALPN interface {
	// NextProtos returns the names, as "h2".
	NextProtos() []string
}

// CodecProvider is what a [Protocol] implements beside it whose codecs tandem's own
// clients may use, too, and messages of methods may need: as if they were given to
// [WithCodecs], where a codec of the same name goes first.
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

// Verdict is what a [Protocol] says of the first bytes of a connection.
type Verdict = sniff.Verdict

// The verdicts.
const (
	No       = sniff.No   // another protocol's
	NeedMore = sniff.More // too few to tell
	Yes      = sniff.Yes  // this protocol's
)

// MaxSniff is how many bytes a [Protocol] sees at most before it must have
// decided; NeedMore then means No.
const MaxSniff = 1 << 10

// WithProtocols adds protocols to tandem's own, which the first bytes are
// compared with first. Then the protocols are asked in this order: one is chosen
// when all before it have said No. Two that take connections with the same first
// bytes, or with one name in ALPN, are an error of all that registers methods or serves.
// Only the last may take every connection that the others leave.
func WithProtocols(p ...Protocol) Option {
	return func(o *options) {
		for _, one := range p {
			if o.want(one != nil, "WithProtocols", one, "a protocol") {
				o.protocols = append(o.protocols, one)
			}
		}
	}
}

// Unrecognized returns how many connections were closed because their first
// bytes were of no protocol, or did not come in time.
func (s *Server) Unrecognized() uint64 { return s.strangers.count.Load() }

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

// matchers are tandem's own and those of the protocols, in their order.
func matchers(protocols []Protocol) []sniff.Matcher {
	list := []sniff.Matcher{sniff.Prefix(wire.Magic)}
	for _, p := range protocols {
		list = append(list, p.Match)
	}
	return list
}

// offered adds the protocols' names for ALPN to a TLS configuration.
func offered(config *tls.Config, protocols []Protocol) *tls.Config {
	config = config.Clone()
	for _, p := range protocols {
		a, ok := p.(ALPN)
		if !ok {
			continue
		}
		for _, name := range a.NextProtos() {
			if !slices.Contains(config.NextProtos, name) {
				config.NextProtos = append(config.NextProtos, name)
			}
		}
	}
	return config
}

// strangers counts connections that nobody serves.
type strangers struct {
	count  atomic.Uint64
	logged atomic.Pointer[time.Time] // when the last was; nil for never
}

// strangersEvery is how often one of them is logged: a scan of the ports is not to
// fill the log.
const strangersEvery = 10 * time.Second

// turnedAway counts a connection that was closed, and logs it if the last was
// logged long ago. One that its client closed before it said anything does not count, nor
// one that the server closed, see [Server.closeOldLocked].
func (s *Server) turnedAway(c net.Conn, err error) {
	if s.current() == closed || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe) {
		s.log().Debug("connection closed", "peer", c.RemoteAddr(), "error", err)
		return
	}
	total := s.strangers.count.Add(1)
	now, last := time.Now(), s.strangers.logged.Load()
	if last != nil && now.Sub(*last) < strangersEvery || !s.strangers.logged.CompareAndSwap(last, &now) {
		return
	}
	s.log().Info("connection closed", "peer", c.RemoteAddr(), "error", err, "so far", total)
}

// errUnrecognized is why a connection is closed that nobody wants to serve.
var errUnrecognized = errors.New("the first bytes are of no protocol that is served here: see WithProtocols")

// detect reads the first bytes of a connection until it is clear whose it is: a
// protocol's, or tandem's own if that is nil.
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

// greet finds out what a new connection speaks, and returns what serves it, or nil
// when it is closed.
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

// adoptConn makes a connection of another protocol one of the server's.
func (s *Server) adoptConn(c *net.Conn, fresh *Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	greeted := s.greetedLocked(c)
	if !greeted || !s.welcomesLocked() {
		return false
	}
	s.conns[fresh] = struct{}{}
	if s.newcomers != nil {
		fresh.drain() // its first answer says that it is the last
		s.newcomers.bid(nil, []*Conn{fresh})
	}
	fresh.visit.age = s.ages(func(ctx context.Context) { _ = fresh.await(ctx) }) // logged as its end
	return true
}

// serveConn serves a connection of another protocol until it has ended.
func (s *Server) serveConn(c *Conn, p Protocol) {
	err := serveGuarded(c, p)
	defer s.depart(c.visit, err)
	if err != nil && !c.isDraining() {
		c.cancel()
		s.log().Debug("connection ended", "peer", c.RemoteAddr(), "protocol", p.Name(), "reason", err)
	}
	c.wait()
	c.part()
	s.mu.Lock()
	delete(s.conns, c)
	c.visit.stopAging()
	s.mu.Unlock()
	close(c.over)
}

// serveGuarded keeps a panic of a protocol from taking the server with it.
func serveGuarded(c *Conn, p Protocol) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = c.server.panicked(p.Name()+"'s Serve", v)
		}
	}()
	return p.Serve(c.ctx, c)
}
