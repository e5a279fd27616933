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

	Config *tls.Config // for clients with TLS
}

// Accept returns a connection that detects TLS at its first Read.
func (p Port) Accept() (net.Conn, error) {
	c, err := p.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &either{Conn: c, raw: c, config: p.Config}, nil
}

// either is a connection that uses TLS if its first byte is that of a TLS handshake. A server
// must read before it writes.
type either struct {
	net.Conn // raw, or the TLS connection over it

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

// NetConn returns the underlying connection, whose TLS state the server reads.
func (e *either) NetConn() net.Conn { return e.Conn }

// again is a connection that reads from r, which begins with bytes that were read before.
type again struct {
	net.Conn
	r io.Reader
}

func (a *again) Read(p []byte) (int, error) { return a.r.Read(p) }
