// Package netrpc shows the migration of a service from net/rpc: before, halfway and after.
package netrpc

import (
	"net"

	rpc "github.com/tandem-rpc/tandem/compat/netrpc"
	"github.com/tandem-rpc/tandem/examples/migrating/netrpc/before"
)

// Serve is the old server with its import line changed, for net/rpc's clients on one
// listener, and for tandem's on another. It serves until both are closed.
func Serve(old, both net.Listener) error {
	srv := rpc.NewServer()
	if err := srv.Register(before.Arith{}); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Core().ServeListener(both) }()
	srv.Accept(old)
	<-ended // its listener is closed
	return srv.Core().Close()
}
