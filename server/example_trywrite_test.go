package server_test

import (
	"bufio"
	"context"
	"fmt"
	"net"

	"github.com/tandem-rpc/tandem/server"
)

// feed is a protocol that sends what is new, and skips what a slow client does not take at once.
type feed struct{}

func (feed) Name() string { return "feed" }

func (feed) Match([]byte) server.Verdict { return server.Yes }

func (feed) Serve(_ context.Context, c *server.Conn) error {
	for _, news := range []string{"one\n", "two\n"} {
		n, err := c.TryWrite([]byte(news))
		if n > 0 && n < len(news) {
			_, err = c.Write([]byte(news[n:]))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func ExampleConn_TryWrite() {
	srv := server.New(server.WithProtocols(feed{}))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	conn, err := net.Dial("tcp", ln.Addr().String())
	check(err)
	fmt.Fprintln(conn, "hello")
	for news := bufio.NewScanner(conn); news.Scan(); {
		fmt.Println(news.Text())
	}
	check(conn.Close())
	check(srv.Shutdown(context.Background()))
	<-served
	// Output:
	// one
	// two
}
