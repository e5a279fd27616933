package registrytest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
)

// The range of ports. It is below the ports that systems use for outgoing connections
// (from 32,768 on with Linux, 49,152 elsewhere): such a connection could take a port
// after the test has found it free and before the server binds it.
const (
	firstPort = 10_000
	ports     = 32_768 - firstPort
)

// Each process starts at a random port and tries one after the other, so that processes
// that run at the same time rarely try the same port, and one process returns no port
// twice before it has tried all.
var (
	begin = rand.Uint32N(ports)
	tried atomic.Uint32
)

// FreePort returns a port of 127.0.0.1, from 10000 to 32767, that is free for TCP and
// UDP, for a server in another process that must be told its port. The ports at the given
// distances are free, too: Nacos needs FreePort(t, -1000, 1000, 1001). The test fails if
// there is no such port.
//
// Another process may take the port until the server has bound it: a server that can
// listen on port 0, as those of this module can, should do so. FreePort is safe for
// concurrent use.
func FreePort(t testing.TB, besides ...int) int {
	t.Helper()
	var failed error
	for range ports {
		port := firstPort + int((begin+tried.Add(1))%ports)
		if failed = free(port, besides); failed == nil {
			return port
		}
	}
	t.Fatal("no port is free: ", failed)
	return 0
}

// FreeAddress returns the address of a [FreePort], "127.0.0.1:10000".
func FreeAddress(t testing.TB) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", FreePort(t))
}

// free returns an error unless the port and those at the given distances can be bound.
func free(port int, besides []int) error {
	all := []int{port}
	for _, distance := range besides {
		all = append(all, port+distance)
	}
	for _, p := range all {
		if p < firstPort || p >= firstPort+ports {
			return fmt.Errorf("port %d is not from %d to %d", p, firstPort, firstPort+ports-1)
		}
	}
	for _, p := range all {
		if err := bind(fmt.Sprintf("127.0.0.1:%d", p)); err != nil {
			return err
		}
	}
	return nil
}

// bind binds an address for TCP and UDP, and releases it.
func bind(address string) error {
	tcp, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	udp, err := net.ListenPacket("udp", address)
	if err != nil {
		return errors.Join(err, tcp.Close())
	}
	return errors.Join(tcp.Close(), udp.Close())
}
