package registrytest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
)

// Ports are taken from here: below those that systems give to outgoing connections
// (from 32,768 on with Linux, 49,152 elsewhere), any of which could take a port between
// the test that found it free and the server that binds it.
const (
	firstPort = 10_000
	ports     = 32_768 - firstPort
)

// Each process begins anywhere and goes on from there, so that two that run at the same
// time rarely meet, and one gives no port twice before it has tried all.
var (
	begin = rand.Uint32N(ports)
	tried atomic.Uint32
)

// FreePort returns a port of 127.0.0.1, from 10000 to 32767, on which nobody listens by
// TCP or UDP, for a server that is another process and must be told its port. The test
// fails if there is none. Besides, the ports at the given distances are free: Nacos takes
// FreePort(t, -1000, 1000, 1001).
//
// Nothing keeps the port from others until the server has bound it: what can listen
// on port 0, as servers of this module can, should. Safe for concurrent use.
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

// free returns an error unless a port can be bound, and so can those at the given distances.
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

// bind binds an address for a moment.
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
