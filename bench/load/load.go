// Package load is the part of the bench that runs in a peer: it turns a system under test
// into a program with the subcommands server and client, which the harness starts as
// processes and controls over their standard input and output.
package load

import (
	"net"

	"github.com/tandem-rpc/tandem/bench/message"
)

// System is what a system under test provides.
type System struct {
	// Serve answers calls on ln with message.Answer. It may run until the
	// process ends.
	Serve func(ln net.Listener) error
	// Dial opens one connection.
	Dial func(addr string) (Caller, error)
	// Exclusive says that a connection carries one call at a time. The shared mode does not
	// support such a system.
	Exclusive bool
	// Options are the names of the options that the system supports; see Named.
	Options []string
}

// Caller is one connection. Call is safe for concurrent use unless the system is Exclusive.
type Caller interface {
	// Call sends req, which it must not change, and decodes the response into reply, which is
	// empty.
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
