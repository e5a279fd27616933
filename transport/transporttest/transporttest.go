// Package transporttest (experimental) is the behaviour suite for transports: the properties that a client
// and a server need of a connection, tested from both and on the connection
// itself. A transport's test runs it over the real transport:
//
//	func TestBehaviour(t *testing.T) {
//		transporttest.Run(t, func(t testing.TB) transporttest.Harness {
//			return transporttest.Harness{
//				Server: carrier.New(), Name: "carrier",
//				Address: func() string { return "127.0.0.1:0" },
//			}
//		})
//	}
//
// The suite is tested, too: its own tests give it transports that are broken on
// purpose, and each fault must be found.
package transporttest

import (
	"cmp"
	"context"
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem"
)

// Harness is a transport under test.
type Harness struct {
	Server tandem.Transport // listens
	Client tandem.Transport // dials; Server does when it is nil
	Name   string           // name in targets: name://address

	// Address returns an address to listen on, another one each time unless the
	// system chooses.
	Address func() string

	// TLS is set if connections are encrypted: handlers must find the TLS state in their call's
	// Peer.
	TLS bool

	// NoHalfClose is set if a connection can't end one direction alone.
	NoHalfClose bool

	// Within bounds how long each step may take; 20 s when it is 0. It is for slow machines: a
	// step that works does not wait for it.
	Within time.Duration
}

func (h Harness) client() tandem.Transport {
	if h.Client == nil {
		return h.Server
	}
	return h.Client
}

func (h Harness) within() time.Duration { return cmp.Or(max(0, h.Within), 20*time.Second) }

// Check is one rule of the suite.
type Check struct {
	Name string

	run func(s *session) error
}

// Checks returns the rules of the suite.
func Checks() []Check {
	return []Check{
		{"a call and its answer", roundTrip},
		{"both ends have addresses", addresses},
		{"large messages", large},
		{"streams both ways", streams},
		{"many calls at a time", many},
		{"a deadline ends the handler", deadline},
		{"cancelling ends the handler", canceling},
		{"the server calls back", callBack},
		{"a client that closes is noticed", clientCloses},
		{"a server that closes is noticed", serverCloses},
		{"a server that comes back is found", comesBack},
		{"a peer that vanishes is noticed", vanishes},
		{"a silent connection is closed; others go on", silent},
		{"first bytes come one at a time", trickle},
		{"another protocol has the same port", otherProtocol},
		{"TLS takes effect or is refused", startTLS},
		{"draining loses no call", drains},
		{"what was written before the close arrives", lastWords},
		{"a half close leaves the other half", halfClose},
		{"a response to a half close arrives", answersHalfClose},
		{"closing ends a write that waits", closeWhileWriting},
		{"closing ends a read that waits", closeWhileReading},
		{"a deadline ends a read, and the connection goes on", readDeadline},
		{"a deadline ends a write that waits", writeDeadline},
		{"closing a listener leaves its connections", listenerCloses},
		{"a failed dial ends in time and names the address", nowhere},
	}
}

// Run applies the check and returns what is wrong with the transport. It leaves nothing open
// and no goroutine running; if something is left, that is an error, too.
func (c Check) Run(ctx context.Context, h Harness) error {
	before := goleak.IgnoreCurrent()
	s := newSession(ctx, h)
	err := s.within("the check", func() error { return c.run(s) })
	s.end()
	if err == nil {
		err = s.settled(before)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c.Name, err)
	}
	return nil
}

// Run applies every check to a harness of its own, each as a subtest. open makes the harness,
// and closes by t.Cleanup what it opens.
func Run(t *testing.T, open func(t testing.TB) Harness) {
	t.Helper()
	for _, c := range Checks() {
		t.Run(c.Name, func(t *testing.T) {
			if err := c.Run(t.Context(), open(t)); err != nil {
				t.Error(err)
			}
		})
	}
}
