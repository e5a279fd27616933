package server_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
	"github.com/tandem-rpc/tandem/wire"
)

// guest connects like a client that does not speak the protocol well.
func guest(network tandem.Transport) net.Conn {
	c, err := network.Dial(context.Background(), "example")
	if err != nil {
		panic(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(2 * time.Second)) // the server hangs up sooner
	return c
}

// Every limit has a safe default. Servers that are reachable from the internet may want
// stricter ones.
func ExampleNew_hardened() {
	strict := []server.Option{
		server.WithHandshakeTimeout(100 * time.Millisecond), // until a connection's protocol is known
		server.WithStallTimeout(100 * time.Millisecond),     // for the rest of a frame
		server.WithSilence(5 * time.Second),                 // of a client whose calls are running
		server.WithMaxConnections(1000),
		server.WithProxies(netip.MustParsePrefix("10.1.0.0/28")), // load balancers, each with connections of many clients
		server.WithMaxOpenCalls(100),                             // of each
		server.WithMaxMessage(10_000),                            // bytes, before and after decompression
		server.WithStreamWindow(64 << 10),                        // bytes that are not received yet
		server.WithTimeout(time.Second),
	}
	srv := server.New(strict...)
	check(server.Handle(srv, "Text.Len", func(_ context.Context, text *string) (*int, error) {
		n := len(*text)
		return &n, nil
	}))
	network := transport.NewMemory()
	c, stop := startOn(network, srv)
	defer stop()

	silent := guest(network)
	_, err := silent.Read(make([]byte, 1))
	fmt.Println("silent:", err)

	halting := guest(network)
	_, _ = halting.Write(wire.AppendPreface(nil, wire.DefaultSettings()))
	_, _ = halting.Write([]byte("half a")) // frame's head
	_, err = io.Copy(io.Discard, halting)
	fmt.Println("halting, to the end:", err)

	err = c.Call(context.Background(), "Text.Len", strings.Repeat("x", 20_000), nil)
	fmt.Println(tandem.CodeOf(err))
	fmt.Println(*must(client.Invoke[int](context.Background(), c, "Text.Len", "hello")))
	// Output:
	// silent: EOF
	// halting, to the end: <nil>
	// resource exhausted
	// 5
}

// Connections beyond the limit are closed at once.
func ExampleWithMaxConnections() {
	srv := server.New(server.WithMaxConnections(1))
	network := transport.NewMemory()
	c, stop := startOn(network, srv)
	defer stop()
	fmt.Println(tandem.CodeOf(c.Call(context.Background(), "No.Such", nil, nil))) // it is connected
	_, err := guest(network).Read(make([]byte, 1))
	fmt.Println(err)
	// Output:
	// unimplemented
	// EOF
}

// A client may make more calls than a connection may have open: they wait at the client, and
// have not executed if their deadline passes there.
func ExampleWithMaxOpenCalls() {
	srv := server.New(server.WithMaxOpenCalls(2))
	started, release := make(chan struct{}), make(chan struct{})
	check(server.Handle(srv, "Slow.Work", func(context.Context, *int) (*int, error) {
		started <- struct{}{}
		<-release
		return new(int), nil
	}))
	c, stop := start(srv)
	defer stop()
	done := make(chan *client.Pending, 2)
	for range 2 {
		c.Go(context.Background(), "Slow.Work", 0, nil, done)
		<-started
	}
	err := c.Call(context.Background(), "Slow.Work", 0, nil, client.Timeout(20*time.Millisecond))
	fmt.Println(tandem.CodeOf(err), "may have executed:", tandem.MayHaveExecuted(err))
	close(release)
	fmt.Println((<-done).Error, (<-done).Error)
	// Output:
	// deadline exceeded may have executed: false
	// <nil> <nil>
}

// A method's own timeout takes precedence over the server's, and the caller's deadline shortens
// both.
func ExampleMethodTimeout() {
	left := func(ctx context.Context, _ *int) (*string, error) {
		text := "no deadline"
		if deadline, ok := ctx.Deadline(); ok {
			text = time.Until(deadline).Round(time.Minute).String()
		}
		return &text, nil
	}
	srv := server.New(server.WithTimeout(time.Hour))
	check(server.Handle(srv, "Report.Daily", left))
	check(server.Handle(srv, "Report.Now", left, server.MethodTimeout(10*time.Minute)))
	check(server.Handle(srv, "Report.Yearly", left, server.MethodTimeout(-1)))
	c, stop := start(srv, client.WithTimeout(0))
	defer stop()
	for _, method := range srv.Methods() {
		fmt.Println(method, *must(client.Invoke[string](context.Background(), c, method, 0)))
	}
	fmt.Println(*must(client.Invoke[string](context.Background(), c, "Report.Daily", 0, client.Timeout(2*time.Minute))))
	// Output:
	// Report.Daily 1h0m0s
	// Report.Now 10m0s
	// Report.Yearly no deadline
	// 2m0s
}

// Limits of one method protect what it uses, and do not affect other methods.
func ExampleMethodConcurrency() {
	started, release := make(chan struct{}), make(chan struct{})
	scale := func(_ context.Context, image *[]byte) (*[]byte, error) {
		close(started)
		<-release
		return image, nil
	}
	show := func(_ context.Context, image *[]byte) (*[]byte, error) { return image, nil }
	costly := []server.MethodOption{server.MethodConcurrency(1, 0), server.MethodMaxMessage(1000)}
	srv := server.New()
	check(server.Handle(srv, "Image.Scale", scale, costly...))
	check(server.Handle(srv, "Image.Show", show))
	c, stop := start(srv)
	defer stop()
	small, large := make([]byte, 500), make([]byte, 5000)
	first := c.Go(context.Background(), "Image.Scale", small, nil, nil)
	<-started
	fmt.Println("one more:", tandem.CodeOf(c.Call(context.Background(), "Image.Scale", small, nil)))
	fmt.Println("another method:", c.Call(context.Background(), "Image.Show", large, nil))
	close(release)
	fmt.Println("the first:", (<-first.Done).Error)
	fmt.Println("a large one:", tandem.CodeOf(c.Call(context.Background(), "Image.Scale", large, nil)))
	// Output:
	// one more: resource exhausted
	// another method: <nil>
	// the first: <nil>
	// a large one: resource exhausted
}

// A method that keeps nothing of its arguments can share their memory with
// later calls. What it returns may still refer to them: it is encoded first.
func ExampleMethodReuse() {
	type Document struct{ Title, Text string }
	length := func(_ context.Context, d *Document) (*int, error) {
		n := len(d.Title) + len(d.Text)
		return &n, nil
	}
	srv := server.New()
	check(server.Handle(srv, "Document.Length", length, server.MethodReuse()))
	c, stop := start(srv)
	defer stop()
	for _, d := range []Document{{"Tandem", "two ride one bicycle"}, {Title: "Empty"}} {
		fmt.Println(*must(client.Invoke[int](context.Background(), c, "Document.Length", d)))
	}
	// Output:
	// 26
	// 5
}
