package zookeeper

import (
	"context"
	"crypto/tls"
	"net"
	"time"
)

// dialTimeout returns how long a server has to accept a connection, and then to send its
// first response. As in ZooKeeper's Java client, all servers are tried within a session
// timeout.
func dialTimeout(ttl time.Duration, servers int) time.Duration {
	return min(max(ttl/time.Duration(servers), 500*time.Millisecond), 5*time.Second)
}

// dial is called by the library for each connection. It ignores the library's timeout of
// one second, which is too short for a TLS handshake with a distant server.
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
		conn.Close() //nolint:errcheck // the connection is not used, and err is returned
		return nil, err
	}
	return secured, nil
}

// socket is a connection whose reads time out after patience until the server's first
// response has arrived. The library would wait ten times two thirds of the session timeout
// for its first bytes, and for the others without a deadline.
type socket struct {
	net.Conn
	patience time.Duration
	heard    bool // the server has sent something; used by the reader only
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
