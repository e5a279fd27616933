// Package nbio (experimental) makes connections whose readiness an event-driven engine watches,
// github.com/lesismal/nbio, instead of Go's own poller:
//
//	t, err := nbio.New(transport.TCP())
//	defer t.Close() // after the servers and clients that use it
//	srv := server.New(server.WithTransport("nbio", t))
//	c, err := client.Dial("nbio://host:8976", client.WithTransport("nbio", t))
//
// On the wire it equals the inner transport: a client over TCP reaches a server
// over nbio, and the other way round. TLS goes over it: transport.TLS(t, config).
//
// # Division of work
//
// The engine reports when there are bytes to read, and reads nothing itself; the
// goroutine that waits in Read then reads them, into its own buffer. So no bytes wait
// outside the kernel, a reader that is slow slows down its own peer and no other
// connection, and what a peer sent before it ended its direction is read to the end.
// Writes go to the socket at once. The engine can't tell when a full socket takes
// more, so what does not fit is written by Go's poller, and so is everything on a
// connection that the engine has released.
//
// This applies to Linux. On other systems connections are returned unchanged: nbio's
// poller there reports a connection repeatedly until it has been read.
package nbio

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/tandem-rpc/tandem"
)

// Transport is a transport with an engine: a goroutine and a table of the
// descriptors that the process may open, 8 bytes each and at most 16 MiB. All
// methods may be called concurrently.
type Transport struct {
	inner tandem.Transport
	loop  *loop
}

// New starts an engine for the sockets of inner: transport.TCP(), transport.Unix() or another
// whose connections are a [net.TCPConn] or a [net.UnixConn]. It fails when the engine can't
// start, or lacks a behaviour that this package needs. Close ends it.
//
// nbio has one log for the process, on standard output. New limits it to errors.
func New(inner tandem.Transport) (*Transport, error) {
	l, err := newLoop()
	if err != nil {
		return nil, fmt.Errorf("nbio: %w", err)
	}
	return &Transport{inner: inner, loop: l}, nil
}

// Dial connects to the address. Its errors are those of the inner transport, and
// [net.ErrClosed] after Close.
func (t *Transport) Dial(ctx context.Context, address string) (net.Conn, error) {
	c, err := t.inner.Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	return t.adopt(c)
}

// Listen opens a listener on the address. After Close the listener stays open, but Accept fails
// with [net.ErrClosed].
func (t *Transport) Listen(ctx context.Context, address string) (net.Listener, error) {
	ln, err := t.inner.Listen(ctx, address)
	if err != nil {
		return nil, err
	}
	return &listener{ln, t}, nil
}

// Close ends the engine. Open connections go on with Go's poller. A second Close does nothing.
func (t *Transport) Close() error {
	t.loop.stop()
	return nil
}

// adopt hands a connection to the engine, or closes it.
func (t *Transport) adopt(c net.Conn) (net.Conn, error) {
	sock, ok := c.(socket)
	if !ok {
		err := fmt.Errorf("nbio: the inner transport makes a %T: want a socket, *net.TCPConn or *net.UnixConn; put TLS over nbio", c)
		return nil, errors.Join(err, c.Close())
	}
	watched, err := t.loop.adopt(sock)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("nbio: %v: %w", c.RemoteAddr(), err), closed(c))
	}
	return watched, nil
}

// closed closes a connection that may be closed already.
func closed(c net.Conn) error {
	if err := c.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

type listener struct {
	net.Listener
	t *Transport
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.t.adopt(c)
}
