package quic_test

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/transport"
	"github.com/tandem-rpc/tandem/transport/quic"
	"github.com/tandem-rpc/tandem/transport/transporttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair returns the transports of a server and a client that trust each other.
func pair(t testing.TB, opts ...quic.Option) (server, client tandem.Transport) {
	t.Helper()
	serverTLS, clientTLS := transporttest.Certificates(t)
	server, err := quic.New(serverTLS, opts...)
	if err != nil {
		t.Fatal(err)
	}
	client, err = quic.New(clientTLS, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return server, client
}

func behaves(t *testing.T, opts ...quic.Option) {
	transporttest.Run(t, func(t testing.TB) transporttest.Harness {
		server, client := pair(t, opts...)
		return transporttest.Harness{
			Server: server, Client: client, Name: "quic", TLS: true,
			Address: func() string { return "127.0.0.1:0" },
		}
	})
}

func TestBehaviour(t *testing.T) { behaves(t) }

// A peer that half-closes gets the whole response, also from an end that closes without having
// read the peer's end.
func TestHalfCloseUnread(t *testing.T) {
	server, client := pair(t)
	ln, err := server.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c, err := client.Dial(t.Context(), ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	dialed := transport.Wrap(c)
	defer dialed.Close()
	if c, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	end := time.Now().Add(20 * time.Second)
	_, err = dialed.Write([]byte("?"))
	if err := errors.Join(err, dialed.SetDeadline(end), c.SetDeadline(end)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := dialed.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	<-time.After(100 * time.Millisecond) // so that the end has arrived, unread
	words := bytes.Repeat([]byte("words "), 2000)
	_, err = c.Write(words)
	if err := errors.Join(err, c.Close()); err != nil {
		t.Fatal(err)
	}
	<-time.After(200 * time.Millisecond)
	if got, err := io.ReadAll(dialed); !bytes.Equal(got, words) || err != nil {
		t.Errorf("%d of %d bytes arrived: %v", len(got), len(words), err)
	}
}
