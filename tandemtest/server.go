package tandemtest

import (
	"context"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/server"
)

// stopWait is how long running calls may take to finish when a server is stopped.
const stopWait = 10 * time.Second

// A Server is an instance that [Network.Serve] started. Its faults affect its connections of
// the network only; the server itself continues to run. Its methods are safe for concurrent
// use.
type Server struct {
	*server.Server

	ID string // ID of the instance, and the server's address

	t    testing.TB
	link *link
}

// Stop shuts the server down as a deploy does: it leaves the registry, finishes running calls
// and ends. The test fails if they take longer than ten seconds. Faults end.
func (s *Server) Stop() {
	s.Restore()
	ctx, cancel := context.WithTimeout(context.Background(), stopWait)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		s.t.Errorf("tandemtest: stopping %s: %v", s.ID, err)
	}
}

// Cut ends all connections of the server, in the middle of whatever is sent. New ones can be
// made.
func (s *Server) Cut() { s.link.cut() }

// Crash ends all connections and refuses new ones, as when the process is killed: the instance
// stays listed. See [Server.Restore].
func (s *Server) Crash() {
	s.link.set(func(f *faults) { f.refused = true })
	s.link.cut()
}

// Stall stops all bytes from and to the server, without an error, as when its machine has
// lost the network; connecting waits, too. See [Server.Restore].
func (s *Server) Stall() { s.link.set(func(f *faults) { f.stalled = true }) }

// Delay makes all bytes from and to the server arrive later by d; 0 ends the delay.
func (s *Server) Delay(d time.Duration) { s.link.set(func(f *faults) { f.delay = max(0, d) }) }

// Restore ends the faults of [Server.Crash], [Server.Stall] and [Server.Delay]. Bytes that a
// stall has held back arrive.
func (s *Server) Restore() { s.link.set(func(f *faults) { *f = faults{} }) }
