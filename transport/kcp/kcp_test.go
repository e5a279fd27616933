package kcp_test

import (
	"bytes"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/transport"
	"github.com/tandem-rpc/tandem/transport/kcp"
	"github.com/tandem-rpc/tandem/transport/transporttest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(parting{m}, goleak.IgnoreCurrent()) // kcp-go has timers from its start
}

// parting runs tests, and then gives closed connections time to end.
type parting struct{ *testing.M }

func (p parting) Run() int {
	defer time.Sleep(3 * time.Second) // a closed connection ends within a second, after its test
	return p.M.Run()
}

func loopback() string { return "127.0.0.1:0" }

func open(t testing.TB, opts ...kcp.Option) tandem.Transport {
	t.Helper()
	c, err := kcp.New(opts...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestBehaviour(t *testing.T) {
	transporttest.Run(t, func(t testing.TB) transporttest.Harness {
		return transporttest.Harness{Server: open(t), Name: "kcp", Address: loopback, Within: patience}
	})
}

// patience bounds a step: both ends, with their retransmissions, are in this process, and with
// little processor time it takes many times as long.
const patience = time.Minute

// Parity, a key, and TLS, all at once.
func TestBehaviourWithAllOptions(t *testing.T) {
	transporttest.Run(t, func(t testing.TB) transporttest.Harness {
		opts := []kcp.Option{kcp.WithKey(bytes.Repeat([]byte{7}, 32)), kcp.WithParity(10, 3), kcp.WithCongestionControl(), kcp.WithWindow(128)}
		serverTLS, clientTLS := transporttest.Certificates(t)
		return transporttest.Harness{
			Server: transport.TLS(open(t, opts...), serverTLS), Client: transport.TLS(open(t, opts...), clientTLS),
			Name: "kcp", Address: loopback, TLS: true, Within: patience,
		}
	})
}
