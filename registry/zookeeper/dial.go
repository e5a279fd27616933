package zookeeper

import (
	"context"
	"crypto/tls"
	"net"
	"time"
)

// dialTimeout returns how long a server has to accept a connection and to answer
// first, as ZooKeeper's Java client has it: all of them are tried within a session
// timeout.
func dialTimeout(ttl time.Duration, servers int) time.Duration {
	return min(max(ttl/time.Duration(servers), 500*time.Millisecond), 5*time.Second)
}

// dial is what the library calls for each connection. Its own timeout, one second,
// is too short for TLS over a long way.
func (l *link) dial(network, address string, _ time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(l.ctx, l.patience)
	defer cancel()
	conn, err := l.open(ctx, network, address)
	if err != nil {
		l.fail(err)
		return nil, err
	}
	s := &socket{Conn: conn, patience: l.patience}
	l.hold(s)
	return s, nil
}

func (l *link) open(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	if err != nil || l.options.tls == nil {
		return conn, err
	}
	config := l.options.tls.Clone()
	if config.ServerName == "" {
		config.ServerName, _, err = net.SplitHostPort(address)
	}
	secured := tls.Client(conn, config)
	if err == nil {
		err = secured.HandshakeContext(ctx)
	}
	if err != nil {
		conn.Close() //nolint:errcheck // it is not needed, and the reason is told
		return nil, err
	}
	return secured, nil
}

// socket is a connection on which the server's first answer does not take long.
// The library would wait ten times two thirds of the session timeout for it, and
// then without an end for its second half.
type socket struct {
	net.Conn
	patience time.Duration
	heard    bool // the server has answered; only its reader knows
}

func (s *socket) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	s.heard = s.heard || n > 0
	return n, err
}

func (s *socket) SetReadDeadline(t time.Time) error {
	if t.IsZero() || !s.heard {
		t = time.Now().Add(s.patience)
	}
	return s.Conn.SetReadDeadline(t)
}
