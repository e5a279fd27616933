package grpc_test

import (
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/examples/migrating/grpc/after"
	"github.com/tandem-rpc/tandem/examples/migrating/grpc/before"
)

// serve runs a server until the test ends.
func serve(t *testing.T, serve func(net.Listener) error) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan error, 1)
	go func() { over <- serve(ln) }()
	t.Cleanup(func() {
		_ = ln.Close()
		<-over
	})
	return ln.Addr().String()
}

// TestPair migrates the server first and its callers later; the error codes are the same.
func TestPair(t *testing.T) {
	old, fresh := serve(t, before.Serve), serve(t, after.Serve)
	for name, c := range map[string]struct {
		ask     func(address string, size int32) (int, error)
		address string
	}{
		"before":           {before.Ask, old},
		"the server first": {before.Ask, fresh},
		"after":            {after.Ask, fresh},
	} {
		if n, err := c.ask(c.address, 1000); err != nil || n != 1000 {
			t.Errorf("%s: %d, %v", name, n, err)
		}
		_, err := c.ask(c.address, -1)
		if err == nil || !strings.Contains(err.Error(), "fewer than no bytes") ||
			status.Code(err) != codes.InvalidArgument && tandem.CodeOf(err) != tandem.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
}
