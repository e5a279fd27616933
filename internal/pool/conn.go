package pool

import (
	"context"
	"errors"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/session"
)

// Connection is what sessions and connections of other protocols have in common.
type Connection interface {
	Peer() *tandem.Peer
	Err() error       // why it has ended; nil while it has not
	OnAway(f func())  // f is called once when the connection takes no more calls, or has ended; it does not block
	Retire()          // it takes no more calls, and ends when the last is answered
	Close()           // ends the connection at once
	Heard() time.Time // when something was last received
	Ping()            // sends a ping and does not wait for the answer
}

// Foreign is a connection of another protocol than tandem's own.
type Foreign interface {
	Connection

	// Invoke makes a call.
	Invoke(ctx context.Context, call *tandem.Call) error
}

// Conn is an established connection: Own or Foreign is set.
type Conn struct {
	Connection

	Own     *session.Session // of tandem's own protocol
	Foreign Foreign
	left    chan struct{} // closed when its link has given it up
}

// OwnConn returns a connection of tandem's own protocol.
func OwnConn(s *session.Session) *Conn {
	return &Conn{Connection: s, Own: s, left: make(chan struct{})}
}

// ForeignConn returns a connection of another protocol.
func ForeignConn(f Foreign) *Conn {
	return &Conn{Connection: f, Foreign: f, left: make(chan struct{})}
}

// NotTakenError is the reason why a connection did not take a call. It counts as
// [session.ErrDraining], so that the call goes to another instance.
type NotTakenError string

// Error returns the text.
func (n NotTakenError) Error() string { return string(n) }

// Is makes errors.Is find ErrDraining.
func (NotTakenError) Is(target error) bool {
	return target == session.ErrDraining // it is this very value
}

// ErrClosed is why calls fail on a closed client.
var ErrClosed = errors.New("the client is closed")
