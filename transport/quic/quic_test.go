package quic_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem"
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
