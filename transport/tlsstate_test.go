package transport_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/internal/testcert"
	"github.com/tandem-rpc/tandem/transport"
)

type secure struct{ net.Conn }

func (secure) ConnectionState() tls.ConnectionState { return tls.ConnectionState{ServerName: "here"} }

type outer struct{ net.Conn }

func (o outer) NetConn() net.Conn { return o.Conn }

type securePush struct{ secure }

func (securePush) OnData(func(p []byte, end error) error) {}

type opaque struct{ net.Conn }

type ring struct{ net.Conn }

func (r ring) NetConn() net.Conn { return r }

// Handshake does a handshake that was not begun, however the connection is wrapped, and within
// the context's time.
func TestHandshake(t *testing.T) {
	serverTLS, clientTLS := testcert.Pair(t, "localhost")
	serverTLS.SessionTicketsDisabled = true // else it writes a ticket, which no goroutine reads
	clientTLS.ServerName = "localhost"
	near, far := net.Pipe()
	t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	ended := make(chan error, 1)
	go func() { ended <- tls.Client(far, clientTLS).HandshakeContext(t.Context()) }()
	c := transport.Wrap(outer{tls.Server(near, serverTLS)})
	if err := errors.Join(transport.Handshake(t.Context(), c), <-ended); err != nil {
		t.Fatal(err)
	}
	if state := transport.TLSState(c); state == nil || !state.HandshakeComplete {
		t.Errorf("after the handshake: %+v", state)
	}
	if err := transport.Handshake(t.Context(), outer{near}); err != nil {
		t.Errorf("without TLS: %v", err)
	}
	silent, other := net.Pipe()
	t.Cleanup(func() { _, _ = silent.Close(), other.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := transport.Handshake(ctx, tls.Server(silent, serverTLS)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with a silent client: %v", err)
	}
}

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
		"pushed":           {transport.Wrap(securePush{secure{plain}}), true},
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
