package tandem

import (
	"context"
	"net"
	"syscall"
)

// Transport dials and listens. It is a value passed as an option, never looked
// up by name in a global table.
//
// A connection that is encrypted by TLS has the method ConnectionState of
// [crypto/tls.Conn]; its result is in the [Peer] of calls. One that can close its
// write direction alone has a method CloseWrite, as [net.TCPConn] does. Closing a
// listener must not close the connections that it has accepted.
type Transport interface {
	// Dial connects to the address, giving up when ctx ends.
	Dial(ctx context.Context, address string) (net.Conn, error)
	// Listen opens a listener on the address.
	Listen(ctx context.Context, address string) (net.Listener, error)
}

// PushConn is implemented by connections of an event-driven engine, which reads
// and passes the bytes to a function. Other connections are read with Read, into a
// buffer of the reader, which saves a copy.
type PushConn interface {
	net.Conn
	// OnData sets the function that receives the bytes, in order, one call at
	// a time. The slice belongs to the engine again when the function returns.
	// If it returns an error, the engine must close the connection. When the
	// connection ends, fn is called once more, with no bytes and the reason.
	OnData(fn func(p []byte, end error) error)
}

// RawConn is implemented by connections whose bytes are those of a file descriptor,
// like the sockets of package net. For reading, a buffer is taken only when bytes are
// there, and writes do not wait.
//
// A type whose Read or Write does more, such as encryption, must not have this method,
// not even by embedding a RawConn: the bytes would bypass its Read and Write.
type RawConn interface {
	net.Conn
	// Raw returns the non-blocking descriptor, or nil if there is none. The Read and
	// Write methods of the syscall.RawConn must wait until the descriptor is ready,
	// and return at the connection's deadlines and when it is closed, as those of a
	// [net.TCPConn] do.
	Raw() syscall.RawConn
}
