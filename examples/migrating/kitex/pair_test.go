package kitex_test

import (
	"net"
	"strings"
	"testing"

	"github.com/tandem-rpc/tandem/examples/migrating/kitex/after"
	"github.com/tandem-rpc/tandem/examples/migrating/kitex/before"
)

// serve runs a server until the test ends.
func serve(t *testing.T, serve func(ln net.Listener, stop <-chan struct{}) error) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stop, over := make(chan struct{}), make(chan error, 1)
	go func() { over <- serve(ln, stop) }()
	t.Cleanup(func() {
		close(stop)
		<-over
	})
	return ln.Addr().String()
}

// TestPair migrates the server first and its callers later.
func TestPair(t *testing.T) {
	old, fresh := serve(t, before.Serve), serve(t, after.Serve)
	for name, c := range map[string]struct {
		hello   func(address, name string) (string, error)
		address string
	}{
		"before":           {before.Hello, old},
		"the server first": {before.Hello, fresh},
		"after":            {after.Hello, fresh},
	} {
		if got, err := c.hello(c.address, "tandem"); err != nil || got != "Hello, tandem" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if _, err := c.hello(c.address, ""); err == nil || !strings.Contains(err.Error(), "nobody to greet") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
