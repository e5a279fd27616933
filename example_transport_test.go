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

// Counted counts the connections that are made over a transport. Tunnels, proxies
// and throttles can be made in the same way: anything that returns a net.Conn.
type Counted struct {
	tandem.Transport
	dialed atomic.Int32
}

// Dial counts the connection and dials with the inner transport.
func (c *Counted) Dial(ctx context.Context, address string) (net.Conn, error) {
	c.dialed.Add(1)
	return c.Transport.Dial(ctx, address)
}

func ExampleTransport() {
	counted := &Counted{Transport: transport.TCP()}
	ln, err := counted.Listen(context.Background(), "127.0.0.1:0")
	check(err)
	srv := server.New()
	check(server.Handle(srv, "Arith.Inc", func(_ context.Context, n *int) (*int, error) {
		*n++
		return n, nil
	}))
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()

	c, err := client.Dial("counted://"+ln.Addr().String(), client.WithTransport("counted", counted))
	check(err)
	n := 0
	for range 100 {
		check(c.Call(context.Background(), "Arith.Inc", n, &n))
	}
	fmt.Println(n, "calls,", counted.dialed.Load(), "connection")
	check(c.Close())
	check(srv.Close())
	fmt.Println(<-served)
	// Output:
	// 100 calls, 1 connection
	// server: closed
}
