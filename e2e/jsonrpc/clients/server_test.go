package jsonrpc

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/protocol/all"
	"github.com/tandem-rpc/tandem/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs a server with every protocol and the methods that the clients call. It returns the
// server's address.
func serve(t *testing.T) string {
	t.Helper()
	srv := server.New(server.WithProtocols(all.New()...))
	var noted atomic.Int64
	err := errors.Join(
		srv.RegisterFunc("subtract", func(p struct {
			Minuend    int `json:"minuend"`
			Subtrahend int `json:"subtrahend"`
		}) (int, error) {
			return p.Minuend - p.Subtrahend, nil
		}),
		srv.RegisterFunc("sum", func(list []int) (sum int) {
			for _, n := range list {
				sum += n
			}
			return sum
		}),
		srv.RegisterFunc("join", func(a, b string) string { return a + b }),
		srv.RegisterFunc("echo", func(s string) string { return s }),
		srv.RegisterFunc("missing", func() error { return tandem.Errorf(tandem.NotFound, "it is not there") }),
		srv.RegisterFunc("note", func(int) error { noted.Add(1); return nil }),
		srv.RegisterFunc("noted", noted.Load),
		srv.RegisterFunc("user", func(ctx context.Context) string { return tandem.FromContext(ctx).Metadata.Get("x-user") }),
	)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	t.Cleanup(func() {
		_ = srv.Close()
		<-served
	})
	return ln.Addr().String()
}

// tally counts the cases of one client.
type tally struct {
	*testing.T

	passed, all int
}

// check counts a case.
func (c *tally) check(name string, ok bool, got ...any) {
	c.Helper()
	c.all++
	if ok {
		c.passed++
		return
	}
	c.Errorf("%s: %v", name, got)
}
