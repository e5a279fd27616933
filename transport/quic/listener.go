package quic

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"sync"

	quicgo "github.com/quic-go/quic-go"
)

type netIP = netip.Addr

// socket is a UDP socket that a listener and its connections share; it closes when the last of
// them has released it.
type socket struct {
	udp  *quicgo.Transport
	conn net.PacketConn

	mu    sync.Mutex
	users int
}

// open opens a socket with one user.
func open(ctx context.Context, address string) (*socket, error) {
	var config net.ListenConfig
	conn, err := config.ListenPacket(ctx, "udp", address)
	if err != nil {
		return nil, err
	}
	return &socket{udp: &quicgo.Transport{Conn: conn}, conn: conn, users: 1}, nil
}

// hold adds a user; false when the socket is closed.
func (s *socket) hold() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users == 0 {
		return false
	}
	s.users++
	return true
}

func (s *socket) release() error {
	s.mu.Lock()
	s.users--
	last := s.users == 0
	s.mu.Unlock()
	if !last {
		return nil
	}
	return errors.Join(s.udp.Close(), s.conn.Close())
}

// listener accepts connections of either kind: when their handshake is complete,
// or as soon as they may have early data.
type listener struct {
	socket *socket
	full   *quicgo.Listener
	early  *quicgo.EarlyListener
	once   sync.Once
}

func (l *listener) next() (*quicgo.Conn, error) {
	if l.early != nil {
		return l.early.Accept(context.Background())
	}
	return l.full.Accept(context.Background())
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.next()
	if errors.Is(err, quicgo.ErrServerClosed) || errors.Is(err, quicgo.ErrTransportClosed) {
		err = net.ErrClosed
	}
	if err != nil {
		return nil, &net.OpError{Op: "accept", Net: "udp", Addr: l.Addr(), Err: err}
	}
	if !l.socket.hold() {
		_ = c.CloseWithError(0, "") // it is gone already
		return nil, &net.OpError{Op: "accept", Net: "udp", Addr: l.Addr(), Err: net.ErrClosed}
	}
	return newAccepted(c, l.socket), nil
}

// Secure refuses a second TLS.
func (l *listener) Secure(*tls.Config) (net.Listener, error) { return nil, errSecured }

// Close stops listening. The socket stays open for the connections that were
// accepted.
func (l *listener) Close() error {
	err := net.ErrClosed
	l.once.Do(func() {
		if l.early != nil {
			err = l.early.Close()
		} else {
			err = l.full.Close()
		}
		err = errors.Join(err, l.socket.release())
	})
	return err
}

func (l *listener) Addr() net.Addr { return l.socket.conn.LocalAddr() }
