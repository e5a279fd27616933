package server_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/tandem-rpc/tandem/server"
)

// menu is a protocol that lists the methods, and whose clients stay until the server drains.
type menu struct{}

func (menu) Name() string { return "menu" }

func (menu) Match(first []byte) server.Verdict {
	if first[0] == '?' {
		return server.Yes
	}
	return server.No
}

func (menu) Serve(ctx context.Context, c *server.Conn) error {
	for _, m := range c.Describe() {
		_, _ = io.WriteString(c, line(m))
	}
	_, _ = fmt.Fprintln(c, "at most", c.MaxOpenCalls(), "calls, and no silence of", c.StallTimeout())
	select {
	case <-c.Draining():
		c.Logger().Info("a client was sent away")
	case <-ctx.Done():
	}
	return nil
}

func line(m *server.Method) string {
	return fmt.Sprintln(m.Name, m.Args, m.Results, "safe:", m.Safe)
}

// A server's methods can be listed, and code that runs for a long time learns when the server
// drains.
func ExampleServer_Describe() {
	srv := server.New(server.WithProtocols(menu{}), server.WithMaxOpenCalls(100))
	check(srv.RegisterFunc("Shop.Price", func(article string) (int, error) { return len(article), nil }, server.MethodSafe()))
	check(srv.RegisterFunc("Shop.Buy", func(article string, n int) error { return nil }))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()

	c, err := net.Dial("tcp", ln.Addr().String())
	check(err)
	check(c.SetDeadline(time.Now().Add(10 * time.Second)))
	_, err = io.WriteString(c, "?")
	check(err)
	lines := bufio.NewScanner(c)
	for range 3 {
		lines.Scan()
		fmt.Println(lines.Text())
	}
	check(srv.Shutdown(context.Background()))
	<-srv.Draining()
	<-served
	check(c.Close())
	// Output:
	// Shop.Buy [string int] [] safe: false
	// Shop.Price [string] [int] safe: true
	// at most 100 calls, and no silence of 10s
}
