package tandem

import (
	"context"
	"net"
	"syscall"
)

// Transport dials and listens. It is a value passed as an option, never looked
// up by name in a global table.
//
// A connection that is encrypted by TLS says so with the method ConnectionState
// of [crypto/tls.Conn]; calls find that in their [Peer]. One that can end its
// own direction alone has a CloseWrite, as [net.TCPConn] has it. Closing a
// listener leaves the connections that it has accepted.
type Transport interface {
	// Dial connects to the address, giving up when ctx ends.
	Dial(ctx context.Context, address string) (net.Conn, error)
	// Listen opens a listener on the address.
	Listen(ctx context.Context, address string) (net.Listener, error)
}

// PushConn is what a connection of an event-driven engine implements beside
// net.Conn: the engine reads and hands the bytes over, instead of being asked
// to read. The other read path, Read into the caller's buffer, saves a copy
// and is what plain connections have.
type PushConn interface {
	net.Conn
	// OnData sets the function that receives the bytes, in order, one call at
	// a time. The slice is the engine's again when the function returns; an
	// error means that the connection is to be closed. When the connection
	// ends, fn is called once more with no bytes and the reason.
	OnData(fn func(p []byte, end error) error)
}

// RawConn is what a connection of an engine implements beside net.Conn that does
// not read but says when to: its bytes are those of a descriptor, as with the sockets
// of package net. It is read with a buffer that is taken when bytes are there, and
// written to without waiting.
//
// A type whose Read or Write does more, as encrypting, must not have this method,
// not by embedding a RawConn either: its bytes would go past it.
type RawConn interface {
	net.Conn
	// Raw returns the descriptor, which does not block, or nil without one. It is
	// read and written, and waited for, by its Read and Write, which go by the
	// connection's deadlines and end with it as those of a [net.TCPConn] do.
	Raw() syscall.RawConn
}
