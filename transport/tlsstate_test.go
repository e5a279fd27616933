package transport_test

import (
	"crypto/tls"
	"net"
	"testing"

	"github.com/tandem-rpc/tandem/transport"
)

type secure struct{ net.Conn }

func (secure) ConnectionState() tls.ConnectionState { return tls.ConnectionState{ServerName: "here"} }

type outer struct{ net.Conn }

func (o outer) NetConn() net.Conn { return o.Conn }

type opaque struct{ net.Conn }

type ring struct{ net.Conn }

func (r ring) NetConn() net.Conn { return r }

func TestTLSState(t *testing.T) {
	plain, other := net.Pipe()
	t.Cleanup(func() { _, _ = plain.Close(), other.Close() })
	for name, c := range map[string]struct {
		conn net.Conn
		want bool
	}{
		"plain":            {plain, false},
		"TLS":              {secure{plain}, true},
		"TLS of crypto":    {tls.Client(plain, &tls.Config{ServerName: "x"}), true},
		"wrapped":          {outer{secure{plain}}, true},
		"wrapped for us":   {transport.Wrap(outer{secure{plain}}), true},
		"wrapped secretly": {opaque{secure{plain}}, false},
		"told":             {transport.Over(opaque{secure{plain}}, secure{plain}), true},
		"over plain":       {transport.Over(opaque{plain}, plain), false},
		"a ring":           {ring{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if state := transport.TLSState(c.conn); (state != nil) != c.want {
				t.Errorf("got %v", state)
			}
		})
	}
	if c := (secure{plain}); transport.Over(c, plain) != net.Conn(c) {
		t.Error("a connection that tells was wrapped once more")
	}
}
