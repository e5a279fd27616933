package tandem_test

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// Engine stands for a network engine with an event loop of its own: it reads its
// connections itself and delivers the bytes.
type Engine struct {
	tandem.Transport
	pushed atomic.Int64
}

// Dial returns a connection that delivers its bytes.
func (e *Engine) Dial(ctx context.Context, address string) (net.Conn, error) {
	c, err := e.Transport.Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	return &engineConn{c, e}, nil
}

type engineConn struct {
	net.Conn
	engine *Engine
}

var _ tandem.PushConn = (*engineConn)(nil)

// OnData starts to deliver: the loop of a real engine would do this for all of
// its connections.
func (c *engineConn) OnData(deliver func([]byte, error) error) {
	go func() {
		buf := make([]byte, 4<<10)
		for {
			n, err := c.Read(buf)
			if err != nil {
				_ = deliver(nil, err) // nothing is left to close
				return
			}
			c.engine.pushed.Add(int64(n))
			if deliver(buf[:n], nil) != nil {
				_ = c.Close() // the next Read says so
			}
		}
	}()
}

func ExamplePushConn() {
	engine := &Engine{Transport: transport.TCP()}
	ln, err := engine.Listen(context.Background(), "127.0.0.1:0")
	check(err)
	srv := server.New()
	check(server.Handle(srv, "Greeter.Hello", func(_ context.Context, name *string) (*string, error) {
		greeting := "hello, " + *name
		return &greeting, nil
	}))
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()

	c, err := client.Dial("engine://"+ln.Addr().String(), client.WithTransport("engine", engine))
	check(err)
	greeting, err := client.Invoke[string](context.Background(), c, "Greeter.Hello", "gopher")
	fmt.Println(*greeting, err)
	fmt.Println("pushed:", engine.pushed.Load() > int64(len(*greeting)))
	check(c.Close())
	check(srv.Close())
	<-served
	// Output:
	// hello, gopher <nil>
	// pushed: true
}
