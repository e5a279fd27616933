package netrpc_test

import (
	"net"
	"testing"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem/examples/migrating/netrpc"
	"github.com/tandem-rpc/tandem/examples/migrating/netrpc/after"
	"github.com/tandem-rpc/tandem/examples/migrating/netrpc/before"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// serve runs a server until the test ends.
func serve(t *testing.T, serve func(net.Listener) error) string {
	t.Helper()
	ln := listen(t)
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
	old, both := listen(t), listen(t)
	over := make(chan error, 1)
	go func() { over <- netrpc.Serve(old, both) }()
	defer func() {
		_ = old.Close()
		_ = both.Close()
		if err := <-over; err != nil {
			t.Error(err)
		}
	}()
	for name, c := range map[string]struct {
		divide  func(address string, a, b int) (int, error)
		address string
		zero    string
	}{
		"before":                            {before.Divide, serve(t, before.Serve), "divide by zero"},
		"the server first":                  {before.Divide, serve(t, after.Serve), "divide by zero"},
		"after":                             {after.Divide, serve(t, after.Serve), "unknown: divide by zero"},
		"halfway, the old port":             {before.Divide, old.Addr().String(), "divide by zero"},
		"halfway, the old client, new port": {before.Divide, both.Addr().String(), "divide by zero"},
		"halfway, the new client":           {after.Divide, both.Addr().String(), "unknown: divide by zero"},
	} {
		if q, err := c.divide(c.address, 56, 8); err != nil || q != 7 {
			t.Errorf("%s: %d, %v", name, q, err)
		}
		if _, err := c.divide(c.address, 1, 0); err == nil || err.Error() != c.zero {
			t.Errorf("%s: %v, want %q", name, err, c.zero)
		}
	}
}
