package transporttest_test

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem/internal/testcert"
	"github.com/tandem-rpc/tandem/transport"
	"github.com/tandem-rpc/tandem/transport/transporttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func loopback() string { return "127.0.0.1:0" }

func TestTCP(t *testing.T) {
	transporttest.Run(t, func(testing.TB) transporttest.Harness {
		return transporttest.Harness{Server: transport.TCP(), Name: "tcp", Address: loopback}
	})
}

func TestTLS(t *testing.T) {
	transporttest.Run(t, func(t testing.TB) transporttest.Harness {
		serverTLS, clientTLS := testcert.Pair(t, "localhost")
		return transporttest.Harness{
			Server: transport.TLS(transport.TCP(), serverTLS), Client: transport.TLS(transport.TCP(), clientTLS),
			Name: "tcp", Address: loopback, TLS: true,
		}
	})
}

func TestUnix(t *testing.T) {
	transporttest.Run(t, func(t testing.TB) transporttest.Harness {
		dir, n := t.TempDir(), atomic.Int64{}
		return transporttest.Harness{
			Server: transport.Unix(), Name: "unix",
			Address: func() string { return filepath.Join(dir, fmt.Sprint(n.Add(1))) },
		}
	})
}

func TestMemory(t *testing.T) {
	transporttest.Run(t, func(testing.TB) transporttest.Harness {
		var n atomic.Int64
		return transporttest.Harness{
			Server: transport.NewMemory(), Name: "mem",
			Address: func() string { return fmt.Sprint("host", n.Add(1)) },
		}
	})
}
