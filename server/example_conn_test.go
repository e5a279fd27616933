package server_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/server"
)

// sized is a protocol whose requests begin with their size: "Method 5\nhello". A server that
// shuts down sends "bye".
type sized struct{}

func (sized) Name() string { return "sized" }

// Match needs the first line, which must be a name and a number.
func (sized) Match(first []byte) server.Verdict {
	line, _, whole := bytes.Cut(first, []byte("\n"))
	var name string
	var n int
	if _, err := fmt.Sscanf(string(line), "%s %d", &name, &n); whole && err == nil {
		return server.Yes
	}
	if whole || len(first) == server.MaxSniff {
		return server.No
	}
	return server.NeedMore
}

// Serve reads one request at a time: it waits for the response.
func (p sized) Serve(ctx context.Context, c *server.Conn) error {
	fmt.Println("hello,", c.Peer().Protocol)
	c.OnDrain(func() {
		_, _ = c.Write([]byte("bye\n"))
		_ = c.SetReadDeadline(time.Now()) // ends the Read that waits
	})
	r := bufio.NewReader(c)
	for {
		c.Midway(false)
		switch _, err := r.Peek(1); {
		case errors.Is(err, io.EOF): // the client has gone
			return nil
		case err != nil: // or the server goes
			return err
		}
		c.Midway(true) // the rest must not take long
		if err := p.serveNext(ctx, c, r); err != nil {
			return err
		}
	}
}

func (sized) serveNext(ctx context.Context, c *server.Conn, r io.Reader) error {
	var name string
	var n int
	if _, err := fmt.Fscanf(r, "%s %d\n", &name, &n); err != nil {
		return err
	}
	m := c.Method(name)
	if m == nil { // plugins may refuse the caller before it learns that
		done := make(chan error, 1)
		c.NoMethod(ctx, &tandem.Call{Method: name}, c.Missing(name), func(err error) { done <- err })
		_, err := fmt.Fprintln(c, "refused:", <-done)
		return err
	}
	if m.Kind != tandem.Unary || n > m.MaxMessage { // likewise
		done := make(chan error, 1)
		c.Refuse(ctx, &tandem.Call{Method: name}, errors.New("not so"), func(err error) { done <- err })
		_, err := fmt.Fprintln(c, "refused:", <-done)
		return err
	}
	argument := make([]byte, n)
	if _, err := io.ReadFull(r, argument); err != nil {
		return err
	}
	b := &talkBody{argument: string(argument)}
	var ended sync.WaitGroup
	ended.Add(1)
	c.Go(ctx, &tandem.Call{Method: name, Codec: "text", Body: b}, func(err error) {
		defer ended.Done()
		_, _ = fmt.Fprintln(c, b.result, err)
	})
	ended.Wait()
	return nil
}

// A protocol knows the methods before it calls them, says when part of a request has arrived,
// and may end its connections in its own way.
func ExampleConn() {
	srv := server.New(server.WithProtocols(sized{}))
	check(srv.RegisterFunc("Text.Upper", strings.ToUpper))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()

	c, err := net.Dial("tcp", ln.Addr().String())
	check(err)
	check(c.SetDeadline(time.Now().Add(10 * time.Second)))
	answers := bufio.NewScanner(c)
	for _, request := range []string{"Text.Upper 5\nhello", "Text.Lower 5\n"} {
		_, err := io.WriteString(c, request)
		check(err)
		answers.Scan()
		fmt.Println(answers.Text())
	}
	check(srv.Shutdown(context.Background()))
	<-served
	answers.Scan()
	fmt.Println(answers.Text())
	check(c.Close())
	// Output:
	// hello, sized
	// HELLO <nil>
	// refused: rpc: can't find method Text.Lower
	// bye
}
