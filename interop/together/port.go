package together

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
)

// Port is a listener for clients with TLS and without.
type Port struct {
	net.Listener

	Config *tls.Config // for those with TLS
}

// Accept returns a connection that finds out what it is when it is first read.
func (p Port) Accept() (net.Conn, error) {
	c, err := p.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &either{Conn: c, raw: c, config: p.Config}, nil
}

// either is TLS if its first byte says so. A server reads before it writes.
type either struct {
	net.Conn // what it is

	raw    net.Conn
	config *tls.Config
	begun  bool
}

// handshake is the type of a TLS connection's first record (RFC 8446, section 5.1).
const handshake = 0x16

func (e *either) Read(p []byte) (int, error) {
	if !e.begun {
		var first [1]byte
		if _, err := io.ReadFull(e.raw, first[:]); err != nil {
			return 0, err
		}
		e.begun = true
		e.Conn = &again{e.raw, io.MultiReader(bytes.NewReader(first[:]), e.raw)}
		if first[0] == handshake {
			e.Conn = tls.Server(e.Conn, e.config)
		}
	}
	return e.Conn.Read(p)
}

// NetConn returns what it is, whose TLS the server asks for.
func (e *either) NetConn() net.Conn { return e.Conn }

// again reads what has been read already first.
type again struct {
	net.Conn
	r io.Reader
}

func (a *again) Read(p []byte) (int, error) { return a.r.Read(p) }
