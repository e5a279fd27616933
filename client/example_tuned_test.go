package client_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// watched prints every connection that is made.
type watched struct {
	tandem.Transport
	dialed chan string
}

func (w watched) Dial(ctx context.Context, address string) (net.Conn, error) {
	w.dialed <- address
	return w.Transport.Dial(ctx, address)
}

// The clients of a program may share their options.
func ExampleDial_tuned() {
	network, stop := ready()
	defer stop()
	remaining := func(next tandem.Func) tandem.Func {
		return func(ctx context.Context, call *tandem.Call) error {
			fmt.Println(call.Method, "has", time.Until(call.Deadline).Round(time.Minute))
			return next(ctx, call)
		}
	}
	dialed := make(chan string, 100)
	tuned := []client.Option{
		client.WithTransport("mem", watched{network, dialed}),
		client.WithConnections(client.Connections{
			PerInstance: 2,
			Timeout:     2 * time.Second,       // the network is near
			Backoff:     10 * time.Millisecond, // and comes back soon
			MaxBackoff:  time.Second,
		}),
		client.WithTimeout(time.Minute), // the work takes time
		client.WithMaxMessage(1 << 20),  // but its results are small
		client.WithInterceptors(remaining),
	}
	for _, target := range []string{"mem://a", "mem://b"} {
		c, err := client.Dial(target, tuned...)
		check(err)
		name, err := client.Invoke[string](context.Background(), c, "Server.Name", "")
		fmt.Println(*name, err, "connections:", <-dialed, <-dialed)
		check(c.Close())
	}
	// Output:
	// Server.Name has 1m0s
	// a <nil> connections: a a
	// Server.Name has 1m0s
	// b <nil> connections: b b
}

// A server that accepts connections and sends nothing is given up after the timeout, and
// nothing was executed.
func ExampleWithConnections_timeout() {
	network := transport.NewMemory()
	silent, err := network.Listen(context.Background(), "silent")
	check(err)
	defer silent.Close()
	c, err := client.Dial("mem://silent", client.WithTransport("mem", network),
		client.WithConnections(client.Connections{Timeout: 20 * time.Millisecond}), client.WithWait(0))
	check(err)
	defer c.Close()
	err = c.Call(context.Background(), "Server.Name", "", nil, client.Timeout(2*time.Second))
	fmt.Println(tandem.CodeOf(err), "may have executed:", tandem.MayHaveExecuted(err))
	// Output: unavailable may have executed: false
}

// A call that finds no server waits for one: here the server starts after the client.
func ExampleWithWait() {
	network := transport.NewMemory()
	c, err := client.Dial("mem://late", client.WithTransport("mem", network), client.WithWait(4*time.Second))
	check(err)
	defer c.Close()
	name := make(chan string)
	go func() {
		answer, err := client.Invoke[string](context.Background(), c, "Server.Name", "")
		check(err)
		name <- *answer
	}()
	srv := server.New()
	defer srv.Close()
	check(server.Handle(srv, "Server.Name", func(context.Context, *string) (*string, error) { return new("late"), nil }))
	ln, err := network.Listen(context.Background(), "late")
	check(err)
	go srv.ServeListener(ln)
	fmt.Println(<-name)
	// Output: late
}

// A client's default deadline applies to calls without one.
func ExampleWithTimeout() {
	c, stop := one(func(ctx context.Context, _ *string) (*string, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}, client.WithTimeout(20*time.Millisecond))
	defer stop()
	fmt.Println(tandem.CodeOf(c.Call(context.Background(), "It.Does", "", nil)))
	// Output: deadline exceeded
}

// A response that is too large is refused before it is sent; the call has been executed.
func ExampleWithMaxMessage() {
	c, stop := one(func(_ context.Context, size *int) (*[]byte, error) {
		answer := make([]byte, *size)
		return &answer, nil
	}, client.WithMaxMessage(10_000))
	defer stop()
	for _, size := range []int{1_000, 100_000} {
		err := c.Call(context.Background(), "It.Does", size, nil, client.Codec("json"))
		fmt.Println(tandem.CodeOf(err), "may have executed:", tandem.MayHaveExecuted(err))
	}
	// Output:
	// ok may have executed: true
	// resource exhausted may have executed: true
}

// A server can be ahead of the receiver by the window, and no more.
func ExampleWithConnections_streamWindow() {
	network := transport.NewMemory()
	srv := server.New()
	sent := make(chan int, 100)
	check(server.HandleStream(srv, "Numbers.Count", func(_ context.Context, s *tandem.Stream[[]byte, []byte]) error {
		message := make([]byte, 5_000)
		for n := 1; s.Send(&message) == nil; n++ {
			sent <- n
		}
		return nil
	}))
	ln, err := network.Listen(context.Background(), "it")
	check(err)
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()

	c, err := client.Dial("mem://it", client.WithTransport("mem", network), client.WithConnections(client.Connections{StreamWindow: 20_000}))
	check(err)
	s, err := c.OpenStream(context.Background(), "Numbers.Count", client.Codec("raw"))
	check(err)
	ahead := 0
	for ahead < 3 || len(sent) > 0 {
		ahead = <-sent
	}
	fmt.Println("not received:", ahead)
	var message []byte
	for range 3 {
		check(s.RecvMsg(&message))
	}
	fmt.Println("one more:", <-sent)
	check(s.Close())
	check(c.Close())
	check(srv.Close())
	fmt.Println(<-served)
	// Output:
	// not received: 3
	// one more: 4
	// server: closed
}

// A client may be started before its server, and outlives it.
func ExampleWithConnections() {
	network := transport.NewMemory()
	c, err := client.Dial("mem://late", client.WithTransport("mem", network),
		client.WithConnections(client.Connections{Backoff: time.Millisecond, MaxBackoff: 10 * time.Millisecond}),
		client.WithFailMode(client.Failtry), client.WithRetries(50))
	check(err)
	defer c.Close()
	fmt.Println(tandem.CodeOf(c.Call(context.Background(), "It.Does", 1, nil, client.FailMode(client.Failfast))))

	srv := server.New()
	check(server.Handle(srv, "It.Does", func(_ context.Context, n *int) (*int, error) { return n, nil }))
	ln, err := network.Listen(context.Background(), "late")
	check(err)
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	n, err := client.Invoke[int](context.Background(), c, "It.Does", 42)
	fmt.Println(*n, err)
	check(srv.Close())
	fmt.Println(<-served)
	// Output:
	// unavailable
	// 42 <nil>
	// server: closed
}

// A budget bounds retries, so that they don't overload a failing service: here to a fifth of
// the calls that succeed, of which there are none, after ten that were saved up.
func ExampleWithAttempts_budget() {
	var attempts atomic.Int64
	c, stop := one(func(context.Context, *int) (*int, error) {
		attempts.Add(1)
		return nil, tandem.Errorf(tandem.Unavailable, "overloaded")
	}, client.WithFailMode(client.Failover), client.WithRetries(2), client.WithAttempts(client.Attempts{Budget: &policy.Budget{Share: 0.2, PerSecond: 0}}))
	defer stop()
	var err error
	for range 30 {
		err = c.Call(context.Background(), "It.Does", 1, nil, client.Idempotent())
	}
	fmt.Println(attempts.Load(), "attempts, not 90")
	fmt.Println(err)
	// Output:
	// 40 attempts, not 90
	// unavailable: overloaded; not tried again: the retry budget is spent
}

// The call chain sees a call once, the attempt chain each of its attempts and the instance of
// each.
func ExampleWithAttemptInterceptors() {
	log := func(what string) tandem.Interceptor {
		return func(next tandem.Func) tandem.Func {
			return func(ctx context.Context, call *tandem.Call) error {
				err := next(ctx, call)
				fmt.Println(what, call.Attempt, call.Peer.Instance, err)
				return err
			}
		}
	}
	c, stop := one(func(ctx context.Context, _ *string) (*string, error) {
		if tandem.FromContext(ctx).Attempt < 3 {
			return nil, tandem.Errorf(tandem.Unavailable, "just starting")
		}
		return new(string), nil
	}, client.WithFailMode(client.Failover), client.WithRetries(3),
		client.WithInterceptors(log("call")),
		client.WithAttemptInterceptors(log("attempt")))
	defer stop()
	check(c.Call(context.Background(), "It.Does", "", nil, client.Idempotent()))
	// Output:
	// attempt 0 mem://it unavailable: just starting
	// attempt 1 mem://it unavailable: just starting
	// attempt 2 mem://it unavailable: just starting
	// attempt 3 mem://it <nil>
	// call 0 mem://it <nil>
}

// firstLine receives the first line that is written to it.
type firstLine chan string

func (f firstLine) Write(p []byte) (int, error) {
	select {
	case f <- string(p):
	default:
	}
	return len(p), nil
}

// The log says why a client finds no server.
func ExampleWithLogger() {
	line := make(firstLine, 1)
	log := slog.New(slog.NewTextHandler(line, &slog.HandlerOptions{Level: slog.LevelDebug}))
	c, err := client.Dial("mem://nowhere", client.WithTransport("mem", transport.NewMemory()), client.WithLogger(log))
	check(err)
	defer c.Close()
	_, text, _ := strings.Cut(<-line, "level=")
	fmt.Print(text)
	// Output: DEBUG msg="connect failed" endpoint=mem://nowhere error="dial mem nowhere: connection refused"
}
