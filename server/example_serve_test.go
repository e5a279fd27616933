package server_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// A listener may come from anywhere: a socket that the parent process has passed on, or one
// whose port the system has chosen.
func ExampleServer_ServeListener() {
	srv := server.New()
	check(srv.Register(new(Arith)))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()

	c, err := client.Dial("tcp://" + ln.Addr().String())
	check(err)
	defer c.Close()
	fmt.Println(must(client.Invoke[Reply](context.Background(), c, "Arith.Mul", &Args{6, 7})).C)
	check(srv.Shutdown(context.Background()))
	fmt.Println(errors.Is(<-served, server.ErrServerClosed))
	// Output:
	// 42
	// true
}

// A server listens on as many addresses and transports as it is given, and
// stops them all together.
func ExampleServer_Addrs() {
	srv := server.New()
	check(srv.Register(new(Arith)))
	network := transport.NewMemory()
	served := make(chan error, 2)
	for address, t := range map[string]tandem.Transport{"127.0.0.1:0": transport.TCP(), "inside": network} {
		ln, err := t.Listen(context.Background(), address)
		check(err)
		go func() { served <- srv.ServeListener(ln) }()
		c, err := client.Dial(ln.Addr().Network()+"://"+ln.Addr().String(), client.WithTransport("mem", network))
		check(err)
		check(c.Call(context.Background(), "Arith.Mul", &Args{6, 7}, nil))
		check(c.Close())
	}
	var networks []string
	for _, a := range srv.Addrs() {
		networks = append(networks, a.Network())
	}
	slices.Sort(networks)
	fmt.Println(networks)
	check(srv.Close())
	fmt.Println(<-served, <-served, srv.Addrs())
	// Output:
	// [mem tcp]
	// server: closed server: closed []
}

// A handler that ignores its context can't be stopped. Shutdown returns an error instead of
// waiting for it forever.
func ExampleServer_Shutdown_stubborn() {
	srv := server.New()
	started, release := make(chan struct{}), make(chan struct{})
	check(server.Handle(srv, "Slow.Work", func(context.Context, *int) (*int, error) {
		close(started)
		<-release
		return new(int), nil
	}))
	c, stop := start(srv)
	defer stop()
	call := c.Go(context.Background(), "Slow.Work", 1, nil, nil)
	<-started
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	err := srv.Shutdown(ctx)
	fmt.Println(errors.Is(err, context.DeadlineExceeded), errors.Is(err, server.ErrHandlersRunning))
	fmt.Println(tandem.CodeOf((<-call.Done).Error))
	close(release)
	fmt.Println(srv.Close())
	// Output:
	// true true
	// unavailable
	// <nil>
}

// A panic fails only its own call. The server's log has the details, the caller learns only
// that it happened.
func ExampleWithLogger() {
	brief := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "stack" {
			return slog.Attr{}
		}
		return a
	}
	log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: brief}))
	srv := server.New(server.WithLogger(log))
	check(srv.RegisterFunc("Arith.Inverse", func(n int) int { return 1 / n }))
	c, stop := start(srv)
	defer stop()
	fmt.Println(c.Call(context.Background(), "Arith.Inverse", 0, nil))
	// Output:
	// level=ERROR msg="method panicked" method=Arith.Inverse panic="runtime error: integer divide by zero"
	// internal: method Arith.Inverse panicked
}

// A server behind a load balancer of connections: clients connect again every half hour, so
// that new servers get their share, and a server that is stopped goes on serving until the
// balancer has noticed.
func ExampleWithMaxConnectionAge() {
	srv := server.New(
		server.WithMaxConnectionAge(30*time.Minute, time.Minute),
		server.WithLameDuck(20*time.Millisecond), // for a balancer as many seconds as it needs
	)
	began := time.Now()
	check(srv.Shutdown(context.Background()))
	fmt.Println("served on:", time.Since(began) >= 20*time.Millisecond)
	// Output: served on: true
}
