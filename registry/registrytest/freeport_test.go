package registrytest_test

import (
	"fmt"
	"net"
	"testing"

	"github.com/tandem-rpc/tandem/registry/registrytest"
)

// FreePort returns a port once. It does not return a port if that port, or one at the
// given distances, is bound by TCP or UDP.
func TestFreePort(t *testing.T) {
	seen := map[int]bool{}
	for range 100 {
		port := registrytest.FreePort(t, -1000, 1)
		if seen[port] || port < 11_000 || port > 32_766 {
			t.Errorf("port %d again, or from elsewhere", port)
		}
		seen[port] = true
	}
	held := registrytest.FreePort(t, 1, 2)
	tcp, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", held+1))
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	udp, err := net.ListenPacket("udp", fmt.Sprintf("127.0.0.1:%d", held+2))
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	for _, distance := range []int{0, 1} { // the next candidate is one of the two, or next to one
		if port := registrytest.FreePort(t, distance); port == held+1 || port == held+2 || port+distance == held+1 {
			t.Errorf("got port %d, but %d and %d are bound", port, held+1, held+2)
		}
	}
}

// aside is a testing.TB whose Fatal only records the failure.
type aside struct {
	testing.TB

	failed bool
}

func (a *aside) Helper()      {}
func (a *aside) Fatal(...any) { a.failed = true }

func TestNoFreePort(t *testing.T) {
	a := &aside{TB: t}
	if registrytest.FreePort(a, 30_000); !a.failed {
		t.Error("got a port although the other one is out of range")
	}
}
