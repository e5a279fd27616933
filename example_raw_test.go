package tandem_test

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// Census is TCP that counts open connections. They do not change bytes, so they have
// the method Raw: without it they would be treated like connections without a descriptor.
type Census struct {
	tandem.Transport
	open atomic.Int64
}

// Dial returns a connection that is counted until it is closed.
func (s *Census) Dial(ctx context.Context, address string) (net.Conn, error) {
	c, err := s.Transport.Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	s.open.Add(1)
	return &counted{TCPConn: c.(*net.TCPConn), census: s}, nil
}

type counted struct {
	*net.TCPConn
	census *Census
	closed atomic.Bool
}

var _ tandem.RawConn = (*counted)(nil)

// Raw returns the descriptor of the socket.
func (c *counted) Raw() syscall.RawConn {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil // not a socket
	}
	return raw
}

func (c *counted) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.census.open.Add(-1)
	}
	return c.TCPConn.Close()
}

func ExampleRawConn() {
	census := &Census{Transport: transport.TCP()}
	ln, err := census.Listen(context.Background(), "127.0.0.1:0")
	check(err)
	srv := server.New()
	check(server.Handle(srv, "Greeter.Hello", func(_ context.Context, name *string) (*string, error) {
		greeting := "hello, " + *name
		return &greeting, nil
	}))
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()

	c, err := client.Dial("census://"+ln.Addr().String(), client.WithTransport("census", census))
	check(err)
	greeting, err := client.Invoke[string](context.Background(), c, "Greeter.Hello", "gopher")
	fmt.Println(*greeting, err)
	fmt.Println("open:", census.open.Load())

	conn, err := census.Dial(context.Background(), ln.Addr().String())
	check(err)
	defer conn.Close()
	fmt.Println("read and written without a detour:", conn.(tandem.RawConn).Raw() != nil)
	check(c.Close())
	check(srv.Close())
	<-served
	// Output:
	// hello, gopher <nil>
	// open: 1
	// read and written without a detour: true
}
