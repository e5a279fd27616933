package nbio_test

import (
	"errors"
	"net"
	"testing"

	"golang.org/x/net/nettest"

	"github.com/tandem-rpc/tandem/transport"
)

// The Go project's own suite for net.Conn, deadlines above all.
func TestNetConn(t *testing.T) {
	n := open(t, transport.TCP())
	nettest.TestConn(t, func() (a, b net.Conn, stop func(), err error) {
		ln, err := n.Listen(t.Context(), loopback())
		if err != nil {
			return nil, nil, nil, err
		}
		type end struct {
			conn net.Conn
			err  error
		}
		accepted := make(chan end, 1)
		go func() {
			c, err := ln.Accept()
			accepted <- end{c, err}
		}()
		if a, err = n.Dial(t.Context(), ln.Addr().String()); err != nil {
			return nil, nil, nil, errors.Join(err, ln.Close())
		}
		e := <-accepted
		if e.err != nil {
			return nil, nil, nil, errors.Join(e.err, a.Close(), ln.Close())
		}
		return a, e.conn, func() {
			_ = errors.Join(a.Close(), e.conn.Close(), ln.Close()) // the suite closes some itself
		}, nil
	})
}
