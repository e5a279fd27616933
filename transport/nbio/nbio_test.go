package nbio_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
	"github.com/tandem-rpc/tandem/transport/nbio"
	"github.com/tandem-rpc/tandem/transport/transporttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func loopback() string { return "127.0.0.1:0" }

// open starts an engine, which ends with the test.
func open(t testing.TB, inner tandem.Transport) *nbio.Transport {
	t.Helper()
	n, err := nbio.New(inner)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// One engine serves both ends.
func TestBehaviour(t *testing.T) {
	transporttest.Run(t, func(t testing.TB) transporttest.Harness {
		return transporttest.Harness{Server: open(t, transport.TCP()), Name: "nbio", Address: loopback}
	})
}

// The client's end is a plain socket.
func TestBehaviourOverUnix(t *testing.T) {
	transporttest.Run(t, func(t testing.TB) transporttest.Harness {
		dir, n := t.TempDir(), atomic.Int64{}
		return transporttest.Harness{
			Server: open(t, transport.Unix()), Client: transport.Unix(), Name: "nbio",
			Address: func() string { return filepath.Join(dir, fmt.Sprint(n.Add(1))) },
		}
	})
}

// The server's end is a plain socket.
func TestBehaviourWithTLS(t *testing.T) {
	transporttest.Run(t, func(t testing.TB) transporttest.Harness {
		serverTLS, clientTLS := transporttest.Certificates(t)
		return transporttest.Harness{
			Server: transport.TLS(transport.TCP(), serverTLS), Client: transport.TLS(open(t, transport.TCP()), clientTLS),
			Name: "nbio", Address: loopback, TLS: true,
		}
	})
}

func ExampleNew() {
	t, err := nbio.New(transport.TCP())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer t.Close() // when everything that uses it has been closed
	ln, err := t.Listen(context.Background(), "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	srv := server.New()
	defer srv.Close()
	if err := srv.RegisterFunc("Math.Double", func(n int) int { return 2 * n }); err != nil {
		fmt.Println(err)
		return
	}
	go func() { _ = srv.ServeListener(ln) }()

	c, err := client.Dial("nbio://"+ln.Addr().String(), client.WithTransport("nbio", t))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	four, err := client.Invoke[int](context.Background(), c, "Math.Double", 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(*four)
	// Output: 4
}
