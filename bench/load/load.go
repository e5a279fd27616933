// Package load is the half of the bench that runs inside a peer: it turns a
// system under test into a program with the subcommands server and client, which
// the harness starts as processes and steers over their standard input and output.
package load

import (
	"net"

	"github.com/tandem-rpc/tandem/bench/message"
)

// System is all that a system under test contributes.
type System struct {
	// Serve answers calls on ln with message.Answer. It may run until the
	// process ends.
	Serve func(ln net.Listener) error
	// Dial opens one connection.
	Dial func(addr string) (Caller, error)
	// Exclusive says that a connection carries one call at a time. Such a
	// system has no place in the shared mode.
	Exclusive bool
	// Options are the names of those that the system knows; see Named.
	Options []string
}

// Caller is one connection. Call may be used by many goroutines at once unless
// the system is Exclusive.
type Caller interface {
	// Call sends req, which it must not change, and decodes the answer into
	// reply, which is empty.
	Call(req, reply *message.BenchmarkMessage) error
	Close() error
}

// DialFor returns a System.Dial from a constructor of a concrete type.
func DialFor[C Caller](dial func(addr string) (C, error)) func(string) (Caller, error) {
	return func(addr string) (Caller, error) {
		c, err := dial(addr)
		if err != nil {
			return nil, err
		}
		return c, nil
	}
}
