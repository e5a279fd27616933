package server_test

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/server"
)

// serve serves until the test ends and returns the listener's address.
func serve(t *testing.T, srv *server.Server, network tandem.Transport, address string) net.Addr {
	t.Helper()
	ln, err := network.Listen(context.Background(), address)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, server.ErrServerClosed) {
			t.Error(err)
		}
	})
	return ln.Addr()
}
