package transport

import (
	"context"
	"crypto/tls"
	"net"
)

// Secure is what a connection implements that has TLS beneath or inside it, as
// [*tls.Conn] does, and those of QUIC and WebSocket over TLS may.
type Secure interface {
	// ConnectionState describes the TLS connection after its handshake.
	ConnectionState() tls.ConnectionState
}

// Wrapping is what a connection implements that wraps another one, as [*tls.Conn]
// does: what is known of the inner one is known of it.
type Wrapping interface {
	// NetConn returns the connection that is wrapped.
	NetConn() net.Conn
}

// wrapped bounds how many connections may lie in one another: a ring of them is
// not to be searched for ever.
const wrapped = 16

// TLSState returns what is known of a connection's TLS, whatever is wrapped round
// it; nil without TLS. The handshake must be done, see [Handshake].
func TLSState(c net.Conn) *tls.ConnectionState {
	s := secure(c)
	if s == nil {
		return nil
	}
	state := s.ConnectionState()
	return &state
}

// Handshake does the handshake of a connection that has TLS and has not done it yet,
// whatever is wrapped round it: a [*tls.Conn] does it with its first bytes otherwise.
func Handshake(ctx context.Context, c net.Conn) error {
	if h, ok := secure(c).(interface {
		HandshakeContext(ctx context.Context) error
	}); ok {
		return h.HandshakeContext(ctx)
	}
	return nil
}

// secure returns what has TLS in a connection; nil without.
func secure(c net.Conn) Secure {
	for range wrapped {
		if s, ok := c.(Secure); ok {
			return s
		}
		switch w := c.(type) {
		case *Conn:
			c = w.Conn
		case Wrapping:
			c = w.NetConn()
		default:
			return nil
		}
	}
	return nil
}

// Over returns outer as a connection that is known to lie round inner: for one
// that was wrapped by somebody who does not say so. It returns outer itself if that
// tells what lies in it, or is read by an event-driven engine.
func Over(outer, inner net.Conn) net.Conn {
	switch outer.(type) {
	case Secure, Wrapping, pushing:
		return outer
	}
	return &over{outer, inner}
}

type pushing interface {
	OnData(fn func(p []byte, end error) error)
}

type over struct {
	net.Conn
	inner net.Conn
}

// NetConn returns the connection that is wrapped.
func (o *over) NetConn() net.Conn { return o.inner }

// CloseWrite ends the sending half of the connection, if it can be ended alone.
func (o *over) CloseWrite() error {
	if w, ok := o.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}
