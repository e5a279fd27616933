package transport

import (
	"context"
	"crypto/tls"
	"net"
)

// Secure is implemented by a connection with TLS beneath or inside it, such as [*tls.Conn];
// connections of QUIC, and of WebSockets over TLS, may implement it.
type Secure interface {
	// ConnectionState describes the TLS connection after its handshake.
	ConnectionState() tls.ConnectionState
}

// Wrapping is implemented by a connection that wraps another one, such as [*tls.Conn]:
// properties of the inner connection then hold for it, too.
type Wrapping interface {
	// NetConn returns the connection that is wrapped.
	NetConn() net.Conn
}

// wrapped bounds how many layers of wrapped connections are searched, in case they form a ring.
const wrapped = 16

// TLSState returns the TLS state of a connection, however it is wrapped; nil without TLS. The
// handshake must be done, see [Handshake].
func TLSState(c net.Conn) *tls.ConnectionState {
	s := secure(c)
	if s == nil {
		return nil
	}
	state := s.ConnectionState()
	return &state
}

// Handshake does the TLS handshake of a connection that has TLS, however it is wrapped, unless
// it is done already. Without it a [*tls.Conn] does the handshake when it is first read or
// written.
func Handshake(ctx context.Context, c net.Conn) error {
	if h, ok := secure(c).(interface {
		HandshakeContext(ctx context.Context) error
	}); ok {
		return h.HandshakeContext(ctx)
	}
	return nil
}

// secure returns the layer of a connection that has TLS; nil without TLS.
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

// Over returns outer as a connection that wraps inner: for a wrapper of a type that is not
// [Wrapping]. It returns outer itself if that is [Secure] or [Wrapping], or is read by an
// event-driven engine.
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

// CloseWrite ends the sending direction of the connection, if that can be ended alone.
func (o *over) CloseWrite() error {
	if w, ok := o.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}
