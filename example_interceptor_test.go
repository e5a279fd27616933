package tandem_test

import (
	"context"
	"fmt"
	"net"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
)

// An interceptor that runs next several times passes a copy of the call each time,
// and takes over the result of the last copy.
func ExampleCall_Clone() {
	again := func(next tandem.Func) tandem.Func {
		return func(ctx context.Context, call *tandem.Call) (err error) {
			for n := range 3 {
				attempt := call.Clone()
				attempt.Attempt = n
				err = next(ctx, attempt)
				call.Trailer, call.Peer = attempt.Trailer, attempt.Peer
				attempt.End(err)
				if tandem.CodeOf(err) != tandem.Aborted {
					break
				}
			}
			return err
		}
	}
	srv := server.New()
	check(server.Handle(srv, "Bank.Transfer", func(ctx context.Context, _ *int) (*string, error) {
		n := tandem.FromContext(ctx).Attempt
		if n < 2 {
			return nil, tandem.Errorf(tandem.Aborted, "another transfer came first")
		}
		done := fmt.Sprintf("done in attempt %d", n)
		return &done, nil
	}))
	c, end := connect(srv, client.WithInterceptors(again))
	defer end()
	done, err := client.Invoke[string](context.Background(), c, "Bank.Transfer", 100)
	fmt.Println(*done, err)
	// Output: done in attempt 2 <nil>
}

// One interceptor sees calls of every kind.
func ExampleKind() {
	kinds := map[tandem.Kind]string{tandem.Unary: "unary", tandem.OneWay: "one-way", tandem.Streaming: "stream"}
	trace := func(next tandem.Func) tandem.Func {
		return func(ctx context.Context, call *tandem.Call) error {
			fmt.Println(call.Method, kinds[call.Kind])
			return next(ctx, call)
		}
	}
	srv := server.New()
	check(server.Handle(srv, "Log.Line", func(context.Context, *string) (*int, error) { return new(int), nil }))
	check(server.HandleStream(srv, "Log.Tail", func(_ context.Context, s *tandem.Stream[string, string]) error { return s.CloseSend() }))
	c, end := connect(srv, client.WithInterceptors(trace))
	defer end()
	check(c.Call(context.Background(), "Log.Line", "with an answer", nil))
	check(c.Notify(context.Background(), "Log.Line", "without"))
	s, err := c.OpenStream(context.Background(), "Log.Tail")
	check(err)
	check(s.Close())
	// Output:
	// Log.Line unary
	// Log.Line one-way
	// Log.Tail stream
}

// The peer of a call is known before anything is decoded. An interceptor can be
// tested without a network.
func ExamplePeer() {
	inside := func(p *tandem.Peer) bool {
		tcp, ok := p.Addr.(*net.TCPAddr)
		return ok && (tcp.IP.IsPrivate() || tcp.IP.IsLoopback())
	}
	guard := func(next tandem.Func) tandem.Func {
		return func(ctx context.Context, call *tandem.Call) error {
			if !inside(call.Peer) {
				return tandem.Errorf(tandem.PermissionDenied, "%v is outside", call.Peer.Addr)
			}
			return next(ctx, call)
		}
	}
	f := tandem.Chain(func(context.Context, *tandem.Call) error { return nil }, guard)
	for _, ip := range []string{"10.0.0.7", "203.0.113.9"} {
		peer := &tandem.Peer{Addr: &net.TCPAddr{IP: net.ParseIP(ip), Port: 50123}}
		fmt.Println(f(context.Background(), &tandem.Call{Method: "Arith.Mul", Peer: peer}))
	}
	// Output:
	// <nil>
	// permission denied: 203.0.113.9:50123 is outside
}

// An interceptor sees only those messages of a stream that it sends and receives
// itself; this one sends a greeting before the handler's messages.
func ExampleBody_stream() {
	greet := func(next tandem.Func) tandem.Func {
		return func(ctx context.Context, call *tandem.Call) error {
			if s := call.Body.Stream(); s != nil {
				if err := s.SendMsg("welcome"); err != nil {
					return err
				}
			}
			return next(ctx, call)
		}
	}
	srv := server.New(server.WithInterceptors(greet))
	check(server.HandleStream(srv, "Chat.Join", func(_ context.Context, s *tandem.Stream[string, string]) error {
		rules := "be kind"
		return s.Send(&rules)
	}))
	c, end := connect(srv)
	defer end()
	s, err := client.Stream[string, string](context.Background(), c, "Chat.Join")
	check(err)
	for line, err := range s.All() {
		fmt.Println(*line, err)
	}
	// Output:
	// welcome <nil>
	// be kind <nil>
}

// A custom option sets everything that a kind of call needs.
func ExampleCallOption() {
	reading := func(mode tandem.FailMode) tandem.CallOption {
		return func(call *tandem.Call) {
			call.Idempotent = true
			if call.FailMode == tandem.FailDefault {
				call.FailMode = mode
			}
		}
	}
	srv := server.New()
	check(server.Handle(srv, "Shop.Stock", func(ctx context.Context, _ *string) (*int, error) {
		attempt := tandem.FromContext(ctx).Attempt
		if attempt == 0 {
			return nil, tandem.Errorf(tandem.Unavailable, "just starting")
		}
		return &attempt, nil
	}))
	c, end := connect(srv)
	defer end()
	fmt.Println(c.Call(context.Background(), "Shop.Stock", "tea", nil))
	fmt.Println(c.Call(context.Background(), "Shop.Stock", "tea", nil, reading(tandem.Failover)))
	// Output:
	// unavailable: just starting
	// <nil>
}
