package server_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

type Args struct{ A, B int }

type Reply struct{ C int }

// Arith is a net/rpc service, unchanged.
type Arith int

func (*Arith) Mul(a *Args, r *Reply) error {
	r.C = a.A * a.B
	return nil
}

// Divide has several arguments and several results.
func (*Arith) Divide(a, b int) (quo, rem int, err error) {
	if b == 0 {
		return 0, 0, errors.New("divide by zero")
	}
	return a / b, a % b, nil
}

// start serves on an in-memory network, and returns a client and a function that closes both.
func start(srv *server.Server, opts ...client.Option) (*client.Client, func()) {
	return startOn(transport.NewMemory(), srv, opts...)
}

// startOn is start on a network that has other connections, too.
func startOn(network *transport.Memory, srv *server.Server, opts ...client.Option) (*client.Client, func()) {
	ln, err := network.Listen(context.Background(), "example")
	check(err)
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	c, err := client.Dial("mem://example", append(opts, client.WithTransport("mem", network))...)
	check(err)
	return c, func() {
		check(c.Close())
		check(srv.Close())
		<-served
	}
}

// check panics if an example can't go on.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

func ExampleServer_Register() {
	srv := server.New()
	if err := srv.Register(new(Arith)); err != nil {
		fmt.Println(err)
	}
	fmt.Println(srv.Methods())
	c, stop := start(srv)
	defer stop()
	var r Reply
	err := c.Call(context.Background(), "Arith.Mul", &Args{7, 8}, &r)
	fmt.Println(r.C, err)
	var quo, rem int
	err = c.Call(context.Background(), "Arith.Divide", tandem.Args{17, 5}, tandem.Results{&quo, &rem})
	fmt.Println(quo, rem, err)
	// Output:
	// [Arith.Divide Arith.Mul]
	// 56 <nil>
	// 3 2 <nil>
}

func ExampleHandle() {
	srv := server.New()
	err := server.Handle(srv, "Greeter.Hello", func(_ context.Context, name *string) (*string, error) {
		if *name == "" {
			return nil, tandem.Errorf(tandem.InvalidArgument, "who is it?")
		}
		greeting := "hello, " + *name
		return &greeting, nil
	})
	if err != nil {
		fmt.Println(err)
	}
	c, stop := start(srv)
	defer stop()
	fmt.Println(*must(client.Invoke[string](context.Background(), c, "Greeter.Hello", "gopher")))
	_, err = client.Invoke[string](context.Background(), c, "Greeter.Hello", "")
	fmt.Println(err)
	// Output:
	// hello, gopher
	// invalid argument: who is it?
}

func must[T any](v *T, err error) *T {
	if err != nil {
		panic(err)
	}
	return v
}

func ExampleHandleStream() {
	srv := server.New()
	err := server.HandleStream(srv, "Chat.Shout", func(_ context.Context, s *tandem.Stream[string, string]) error {
		for word, err := range s.All() {
			if err != nil {
				return err
			}
			loud := *word + "!"
			if err := s.Send(&loud); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	c, stop := start(srv)
	defer stop()
	s := must(client.Stream[string, string](context.Background(), c, "Chat.Shout"))
	for _, word := range []string{"to", "be"} {
		if err := s.Send(&word); err != nil {
			fmt.Println(err)
		}
		fmt.Println(*must(s.Recv()))
	}
	fmt.Println(s.CloseSend())
	// Output:
	// to!
	// be!
	// <nil>
}

func ExampleServer_RegisterFunc() {
	srv := server.New()
	if err := srv.RegisterFunc("Math.Hypot2", func(a, b float64) float64 { return a*a + b*b }); err != nil {
		fmt.Println(err)
	}
	c, stop := start(srv)
	defer stop()
	var sum float64
	err := c.Call(context.Background(), "Math.Hypot2", tandem.Args{3.0, 4.0}, &sum)
	fmt.Println(sum, err)
	// Output: 25 <nil>
}

func ExampleServer_Alias() {
	srv := server.New()
	err := srv.Register(new(Arith), server.ForMethod("Mul", server.MethodName("multiply")))
	fmt.Println(err, srv.Alias("Calc", "Arith"))
	c, stop := start(srv)
	defer stop()
	fmt.Println(must(client.Invoke[Reply](context.Background(), c, "Calc.multiply", &Args{6, 7})).C)
	// Output:
	// <nil> <nil>
	// 42
}

func ExampleWithInterceptors() {
	auth := func(next tandem.Func) tandem.Func {
		return func(ctx context.Context, call *tandem.Call) error {
			if call.Metadata.Get("token") != "secret" {
				return tandem.Errorf(tandem.Unauthenticated, "no such token")
			}
			call.Identity = "alice"
			return next(ctx, call)
		}
	}
	srv := server.New(server.WithInterceptors(auth))
	err := server.Handle(srv, "Who.AmI", func(ctx context.Context, _ *struct{}) (*string, error) {
		who := fmt.Sprint(tandem.FromContext(ctx).Identity)
		return &who, nil
	})
	fmt.Println(err)
	c, stop := start(srv)
	defer stop()
	_, err = client.Invoke[string](context.Background(), c, "Who.AmI", nil, client.Codec("json"))
	fmt.Println(err)
	fmt.Println(*must(client.Invoke[string](context.Background(), c, "Who.AmI", struct{}{}, client.Codec("json"), client.Metadata("token", "secret"))))
	// Output:
	// <nil>
	// unauthenticated: no such token
	// alice
}

// A server calls a connected client back, with a reply.
func ExamplePeer() {
	srv := server.New()
	err := server.Handle(srv, "Job.Start", func(ctx context.Context, job *string) (*string, error) {
		return client.Invoke[string](ctx, server.Peer(ctx), "Worker.Confirm", job)
	})
	fmt.Println(err)
	c, stop := start(srv, client.WithFunc("Worker.Confirm", func(_ context.Context, job *string) (*string, error) {
		answer := "yes, " + *job
		return &answer, nil
	}))
	defer stop()
	fmt.Println(*must(client.Invoke[string](context.Background(), c, "Job.Start", "bake")))
	// Output:
	// <nil>
	// yes, bake
}

func ExampleWithMaxConcurrency() {
	srv := server.New(server.WithMaxConcurrency(1, 0))
	started, release := make(chan struct{}), make(chan struct{})
	err := server.Handle(srv, "Slow.Work", func(context.Context, *int) (*int, error) {
		close(started)
		<-release
		return new(int), nil
	})
	fmt.Println(err)
	c, stop := start(srv)
	defer stop()
	first := c.Go(context.Background(), "Slow.Work", 1, nil, nil)
	<-started
	err = c.Call(context.Background(), "Slow.Work", 2, nil)
	fmt.Println(tandem.CodeOf(err), "may have executed:", tandem.MayHaveExecuted(err))
	close(release)
	fmt.Println((<-first.Done).Error)
	// Output:
	// <nil>
	// resource exhausted may have executed: false
	// <nil>
}

// Shutdown lets running calls finish, after it has told the registry and the clients.
func ExampleServer_Shutdown() {
	list := registry.NewMemory()
	network := transport.NewMemory()
	srv := server.New(server.WithTransport("mem", network), server.WithRegistrar(list, tandem.Instance{}))
	started := make(chan struct{}, 1)
	check(server.Handle(srv, "Slow.Work", func(context.Context, *int) (*string, error) {
		started <- struct{}{}
		<-time.After(20 * time.Millisecond) // the work
		done := "finished"
		return &done, nil
	}))
	served := make(chan error, 1)
	go func() { served <- srv.Serve("mem", "a") }()
	c, err := client.Dial("memory://services", client.WithResolver("memory", list), client.WithTransport("mem", network))
	check(err)
	defer c.Close()
	for c.Call(context.Background(), "Slow.Work", 0, nil) != nil {
		runtime.Gosched() // it will be listed in a moment
	}
	<-started

	var result string
	running := c.Go(context.Background(), "Slow.Work", 1, &result, nil)
	<-started
	fmt.Println(srv.Shutdown(context.Background()))
	fmt.Println((<-running.Done).Error, result)
	fmt.Println(errors.Is(<-served, server.ErrServerClosed))
	// Output:
	// <nil>
	// <nil> finished
	// true
}
