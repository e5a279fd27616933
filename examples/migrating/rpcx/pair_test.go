package rpcx_test

import (
	"net"
	"strings"
	"testing"

	"github.com/tandem-rpc/tandem/examples/migrating/rpcx/after"
	"github.com/tandem-rpc/tandem/examples/migrating/rpcx/before"
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

// TestPair: old and new clients can call old and new servers, so either can migrate first.
func TestPair(t *testing.T) {
	old, fresh := serve(t, before.Serve), serve(t, after.Serve)
	for name, c := range map[string]struct {
		divide func(target string, a, b int) (int, error)
		target string
	}{
		"before":           {before.Divide, old},
		"the server first": {before.Divide, fresh},
		"the client first": {after.Divide, "rpcx://" + old},
		"after":            {after.Divide, "tcp://" + fresh},
	} {
		if q, err := c.divide(c.target, 56, 8); err != nil || q != 7 {
			t.Errorf("%s: %d, %v", name, q, err)
		}
		if _, err := c.divide(c.target, 1, 0); err == nil || !strings.Contains(err.Error(), "divide by zero") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
