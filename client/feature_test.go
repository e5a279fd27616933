package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/compress"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// serve starts a server with the methods that the tests call.
func serve(t testing.TB, network tandem.Transport, address string, opts ...server.Option) (*server.Server, net.Addr) {
	t.Helper()
	srv := server.New(append(opts, server.WithLogger(slog.New(slog.DiscardHandler)))...)
	handlers := []error{
		srv.Register(new(Arith)),
		server.Handle(srv, "Test.Echo", func(_ context.Context, in *[]byte) (*[]byte, error) { return in, nil }),
		server.Handle(srv, "Test.Panic", func(context.Context, *[]byte) (*[]byte, error) { panic("secret") }),
		server.Handle(srv, "Test.Wait", func(ctx context.Context, _ *[]byte) (*[]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, server.MethodTimeout(-1)),
		server.Handle(srv, "Test.Who", func(ctx context.Context, _ *[]byte) (*[]byte, error) {
			call := tandem.FromContext(ctx)
			call.Trailer = tandem.Metadata{"served-by": {"test"}}
			b := []byte(fmt.Sprintf("%s %s %v", call.Peer.Addr.Network(), call.Metadata.Get("token"), call.Deadline.IsZero()))
			return &b, nil
		}),
		server.Handle(srv, "Test.CallBack", func(ctx context.Context, in *[]byte) (*[]byte, error) {
			return client.Invoke[[]byte](ctx, server.Peer(ctx), "Client.Upper", in, client.Codec("raw"))
		}),
		server.HandleStream(srv, "Test.Talk", func(_ context.Context, s *tandem.Stream[[]byte, []byte]) error {
			for m, err := range s.All() {
				if err != nil {
					return err
				}
				if string(*m) == "fail" {
					return tandem.Errorf(tandem.OutOfRange, "asked to")
				}
				if err := s.Send(m); err != nil {
					return err
				}
			}
			return nil
		}),
		server.HandleStream(srv, "Test.Count", func(_ context.Context, s *tandem.Stream[int, int]) error {
			n, err := s.Recv()
			if err != nil {
				return err
			}
			for i := range *n {
				if err := s.Send(&i); err != nil {
					return err
				}
			}
			return nil
		}),
		server.HandleStream(srv, "Test.Sum", func(_ context.Context, s *tandem.Stream[int, int]) error {
			sum := 0
			for n, err := range s.All() {
				if err != nil {
					return err
				}
				sum += *n
			}
			return s.Send(&sum)
		}),
	}
	if err := errors.Join(handlers...); err != nil {
		t.Fatal(err)
	}
	ln, err := network.Listen(context.Background(), address)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- srv.ServeListener(ln) }()
	t.Cleanup(func() {
		srv.Close()
		<-done
	})
	return srv, ln.Addr()
}

// modes runs f over every transport.
func modes(t *testing.T, f func(t *testing.T, c *client.Client), opts ...client.Option) {
	mem := transport.NewMemory()
	for name, m := range map[string]struct {
		network tandem.Transport
		address string
		opt     client.Option
	}{
		"tcp":  {transport.TCP(), "127.0.0.1:0", client.WithTimeout(5 * time.Second)},
		"unix": {transport.Unix(), filepath.Join(t.TempDir(), "s"), client.WithTimeout(5 * time.Second)},
		"mem":  {mem, "a", client.WithTransport("mem", mem)},
	} {
		t.Run(name, func(t *testing.T) {
			_, addr := serve(t, m.network, m.address)
			f(t, dial(t, name+"://"+addr.String(), append(opts, m.opt)...))
		})
	}
}

func TestFeatures(t *testing.T) {
	upper := client.WithFunc("Client.Upper", func(_ context.Context, in *[]byte) (*[]byte, error) {
		b := bytes.ToUpper(*in)
		return &b, nil
	})
	modes(t, func(t *testing.T, c *client.Client) {
		ctx := context.Background()
		t.Run("big", func(t *testing.T) {
			msg := bytes.Repeat([]byte("big "), 500_000)
			got, err := client.Invoke[[]byte](ctx, c, "Test.Echo", &msg, client.Codec("raw"))
			if err != nil || !bytes.Equal(*got, msg) {
				t.Error(err)
			}
		})
		t.Run("compressed", func(t *testing.T) {
			msg := bytes.Repeat([]byte("compressible "), 100_000)
			for _, name := range []string{"gzip", "deflate"} {
				got, err := client.Invoke[[]byte](ctx, c, "Test.Echo", &msg, client.Codec("raw"), client.Compressor(name))
				if err != nil || !bytes.Equal(*got, msg) {
					t.Error(name, err)
				}
			}
		})
		t.Run("context", func(t *testing.T) {
			var md tandem.Metadata
			got, err := client.Invoke[[]byte](ctx, c, "Test.Who", []byte{}, client.Codec("raw"), client.Metadata("Token", "t0"), client.Trailer(&md))
			if err != nil || !strings.HasSuffix(string(*got), " t0 false") || md.Get("Served-By") != "test" {
				t.Errorf("%s, %v, %v", *got, md, err)
			}
		})
		t.Run("panic", func(t *testing.T) {
			_, err := client.Invoke[[]byte](ctx, c, "Test.Panic", []byte{}, client.Codec("raw"))
			if tandem.CodeOf(err) != tandem.Internal || strings.Contains(err.Error(), "secret") {
				t.Errorf("got %v", err)
			}
		})
		t.Run("deadline", func(t *testing.T) {
			start := time.Now()
			err := c.Call(ctx, "Test.Wait", []byte{}, nil, client.Codec("raw"), client.Timeout(50*time.Millisecond))
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > time.Second {
				t.Errorf("got %v", err)
			}
		})
		t.Run("call back", func(t *testing.T) {
			in := []byte("hello")
			got, err := client.Invoke[[]byte](ctx, c, "Test.CallBack", &in, client.Codec("raw"))
			if err != nil || string(*got) != "HELLO" {
				t.Errorf("got %v", err)
			}
		})
		t.Run("streams", func(t *testing.T) { testStreams(t, c) })
	}, upper)
}

func testStreams(t *testing.T, c *client.Client) {
	ctx := context.Background()
	talk, err := client.Stream[[]byte, []byte](ctx, c, "Test.Talk", client.Codec("raw"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		msg := bytes.Repeat([]byte{'a'}, i*20_000)
		if err := talk.Send(&msg); err != nil {
			t.Fatal(err)
		}
		if got, err := talk.Recv(); err != nil || !bytes.Equal(*got, msg) {
			t.Fatal(i, err)
		}
	}
	fail := []byte("fail")
	if err := talk.Send(&fail); err != nil {
		t.Fatal(err)
	}
	if _, err := talk.Recv(); tandem.CodeOf(err) != tandem.OutOfRange {
		t.Errorf("got %v", err)
	}

	n := 1000
	count, err := client.ServerStream[int, int](ctx, c, "Test.Count", &n)
	if err != nil {
		t.Fatal(err)
	}
	next := 0
	for i, err := range count.All() {
		if err != nil || *i != next {
			t.Fatalf("got %v, %v, want %d", i, err, next)
		}
		next++
	}
	if next != n {
		t.Errorf("%d of %d", next, n)
	}

	sum, err := client.ClientStream[int, int](ctx, c, "Test.Sum")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		if err := sum.Send(&i); err != nil {
			t.Fatal(err)
		}
	}
	if total, err := client.CloseAndRecv(sum); err != nil || *total != 4950 {
		t.Errorf("got %v, %v", total, err)
	}

	canceled, cancel := context.WithCancel(ctx)
	talk, err = client.Stream[[]byte, []byte](canceled, c, "Test.Talk", client.Codec("raw"))
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := talk.Recv(); tandem.CodeOf(err) != tandem.Canceled || errors.Is(err, io.EOF) {
		t.Errorf("got %v", err)
	}
	if _, err := client.Stream[int, int](ctx, c, "Test.Echo"); tandem.CodeOf(err) != tandem.Unimplemented {
		t.Errorf("a unary method as a stream: %v", err)
	}
}

func TestNotify(t *testing.T) {
	srv := server.New()
	got := make(chan int, 100)
	if err := server.Handle(srv, "Test.Note", func(_ context.Context, n *int) (*struct{}, error) {
		got <- *n
		return nil, nil
	}); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- srv.ServeListener(ln) }()
	defer func() { srv.Close(); <-done }()
	c := dial(t, "tcp://"+ln.Addr().String())
	for i := range 50 {
		if err := c.Notify(context.Background(), "Test.Note", i); err != nil {
			t.Fatal(err)
		}
	}
	sum := 0
	for range 50 {
		sum += <-got
	}
	if sum != 1225 {
		t.Errorf("got %d", sum)
	}
}

func TestInterceptorsRunBeforeDecoding(t *testing.T) {
	var order []string
	var mu sync.Mutex
	note := func(what string) tandem.Interceptor {
		return func(next tandem.Func) tandem.Func {
			return func(ctx context.Context, call *tandem.Call) error {
				mu.Lock()
				order = append(order, what)
				mu.Unlock()
				return next(ctx, call)
			}
		}
	}
	auth := func(next tandem.Func) tandem.Func {
		return func(ctx context.Context, call *tandem.Call) error {
			if call.Metadata.Get("token") != "good" {
				return tandem.Errorf(tandem.Unauthenticated, "who are you?")
			}
			call.Peer.Identity = "tester"
			return next(ctx, call)
		}
	}
	_, addr := serve(t, transport.TCP(), "127.0.0.1:0", server.WithInterceptors(note("server"), auth))
	c := dial(t, "tcp://"+addr.String(), client.WithInterceptors(note("call")), client.WithAttemptInterceptors(note("attempt")))
	// The argument can't be decoded; the refusal comes first.
	err := c.Call(context.Background(), "Arith.Mul", "nonsense", nil, client.Codec("json"))
	if tandem.CodeOf(err) != tandem.Unauthenticated {
		t.Errorf("got %v", err)
	}
	if _, err := client.Stream[int, int](context.Background(), c, "Test.Sum"); tandem.CodeOf(err) != tandem.Unauthenticated {
		t.Errorf("stream: %v", err)
	}
	var r Reply
	if err := c.Call(context.Background(), "Arith.Mul", &Args{2, 3}, &r, client.Metadata("token", "good")); err != nil || r.C != 6 {
		t.Errorf("got %v, %v", r, err)
	}
	if got := strings.Join(order[:3], " "); got != "call attempt server" {
		t.Errorf("order: %s", got)
	}
}

func TestConcurrencyLimit(t *testing.T) {
	release := make(chan struct{})
	srv := server.New()
	if err := server.Handle(srv, "Test.Hold", func(context.Context, *int) (*int, error) {
		<-release
		return new(int), nil
	}, server.MethodConcurrency(2, 3)); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- srv.ServeListener(ln) }()
	defer func() { srv.Close(); <-done }()
	c := dial(t, "tcp://"+ln.Addr().String())
	var refused, served atomic.Int64
	var wg sync.WaitGroup
	for range 12 {
		wg.Go(func() {
			err := c.Call(context.Background(), "Test.Hold", 1, nil)
			switch {
			case err == nil:
				served.Add(1)
			case tandem.CodeOf(err) == tandem.ResourceExhausted && !tandem.MayHaveExecuted(err):
				if refused.Add(1) == 7 {
					close(release)
				}
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if served.Load() != 5 || refused.Load() != 7 {
		t.Errorf("%d served, %d refused", served.Load(), refused.Load())
	}
}

func TestFailover(t *testing.T) {
	good, goodAddr := serve(t, transport.TCP(), "127.0.0.1:0")
	_, otherAddr := serve(t, transport.TCP(), "127.0.0.1:0")
	var attempts atomic.Int64
	count := client.WithAttemptInterceptors(func(next tandem.Func) tandem.Func {
		return func(ctx context.Context, call *tandem.Call) error {
			attempts.Add(1)
			return next(ctx, call)
		}
	})
	c := dial(t, "static://"+goodAddr.String()+","+otherAddr.String(), client.WithFailMode(client.Failover), count)
	for i := range 200 {
		if i == 60 {
			good.Close() // abruptly: calls in flight would be lost
		}
		r, err := client.Invoke[Reply](context.Background(), c, "Arith.Mul", &Args{i, 3}, client.Idempotent())
		if err != nil || r.C != 3*i {
			t.Fatalf("call %d: %v", i, err)
		}
	}
	t.Logf("%d attempts", attempts.Load())
}

func TestDeadTarget(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	ln.Close()
	c := dial(t, "tcp://"+addr)
	start := time.Now()
	err = c.Call(context.Background(), "Arith.Mul", &Args{1, 2}, nil)
	if tandem.CodeOf(err) != tandem.Unavailable || tandem.MayHaveExecuted(err) || time.Since(start) > time.Second {
		t.Errorf("got %v after %v", err, time.Since(start))
	}
	if _, err := client.Dial("nowhere://x"); tandem.CodeOf(err) != tandem.InvalidArgument {
		t.Errorf("got %v", err)
	}
	var e *tandem.Error
	for _, err := range []error{
		c.Call(context.Background(), "Arith.Mul", &Args{1, 2}, nil, client.Codec("none")),
		c.Call(context.Background(), "Arith.Mul", func() {}, nil),
		c.Call(context.Background(), "Arith.Mul", 1, nil, client.Instance("none")),
	} {
		if !errors.As(err, &e) || !e.NotExecuted {
			t.Errorf("got %v", err)
		}
	}
}

func TestReconnect(t *testing.T) {
	mem := transport.NewMemory()
	srv, _ := serve(t, mem, "a")
	c := dial(t, "mem://a", client.WithTransport("mem", mem), client.WithBackoff(time.Millisecond, 20*time.Millisecond))
	call := func() error { return c.Call(context.Background(), "Arith.Mul", &Args{1, 2}, nil) }
	if err := call(); err != nil {
		t.Fatal(err)
	}
	srv.Close()
	if err := call(); tandem.CodeOf(err) != tandem.Unavailable {
		t.Errorf("got %v", err)
	}
	serve(t, mem, "a")
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) { // polls a condition
		if err := call(); err == nil {
			return
		} else if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

func TestSeveralConnections(t *testing.T) {
	_, addr := serve(t, transport.TCP(), "127.0.0.1:0")
	c := dial(t, "tcp://"+addr.String(), client.WithConnections(4), client.WithCompressor(compress.Gzip()))
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			r, err := client.Invoke[Reply](context.Background(), c, "Arith.Mul", &Args{i, 2})
			if err != nil || r.C != 2*i {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// A call made while no server is up, and a client closed meanwhile: nothing
// hangs, everything ends.
func TestCloseWhileCalling(t *testing.T) {
	_, addr := serve(t, transport.TCP(), "127.0.0.1:0")
	c := dial(t, "tcp://"+addr.String())
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			err := c.Call(context.Background(), "Test.Wait", []byte{}, nil, client.Codec("raw"), client.Timeout(time.Minute))
			if tandem.CodeOf(err) != tandem.Unavailable {
				t.Errorf("got %v", err)
			}
		})
	}
	time.Sleep(20 * time.Millisecond) // the calls are on their way
	c.Close()
	wg.Wait()
	if err := c.Call(context.Background(), "Test.Wait", nil, nil); tandem.CodeOf(err) != tandem.Unavailable {
		t.Errorf("got %v", err)
	}
}

func TestUnusableNamesAreRefusedLocally(t *testing.T) {
	if _, err := client.Dial("tcp://127.0.0.1:1", client.WithCodecs(longName{})); tandem.CodeOf(err) != tandem.InvalidArgument {
		t.Errorf("got %v", err)
	}
	if err := server.New(server.WithCodecs(longName{})).Serve("tcp", "127.0.0.1:0"); err == nil || errors.Is(err, server.ErrServerClosed) {
		t.Errorf("got %v", err)
	}
}

// longName is a codec whose name no peer would take.
type longName struct{ tandem.Codec }

func (longName) Name() string { return strings.Repeat("x", 33) }

// A call that waits for an instance which then leaves the registry goes to
// another: nothing ran.
func TestInstanceLeavesWhileConnecting(t *testing.T) {
	list := registry.NewMemory()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts and never speaks
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	gone, err := list.Register(context.Background(), tandem.Instance{
		ID: "a", Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: silent.Addr().String()}},
	})
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, "memory://x", client.WithResolver("memory", list))
	var reply Reply
	waiting := c.Go(context.Background(), "Arith.Mul", &Args{7, 8}, &reply, nil)
	_, addr := serve(t, transport.TCP(), "127.0.0.1:0")
	if _, err := list.Register(context.Background(), tandem.Instance{
		ID: "b", Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: addr.String()}},
	}); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(5 * time.Second); ; { // until b is connected
		if _, err := client.Invoke[Reply](context.Background(), c, "Arith.Mul", &Args{1, 1}, client.Timeout(100*time.Millisecond)); err == nil {
			break
		} else if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	if p := <-waiting.Done; p.Error != nil || reply.C != 56 {
		t.Errorf("got %v, %v", reply, p.Error)
	}
}

func TestMethodLimits(t *testing.T) {
	srv := server.New()
	wait := func(ctx context.Context, _ *[]byte) (*[]byte, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	echo := func(_ context.Context, in *[]byte) (*[]byte, error) { return in, nil }
	if err := errors.Join(
		server.Handle(srv, "Test.Hasty", wait, server.MethodTimeout(20*time.Millisecond)),
		server.Handle(srv, "Test.Small", echo, server.MethodMaxMessage(1000)),
	); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- srv.ServeListener(ln) }()
	defer func() { srv.Close(); <-done }()
	c := dial(t, "tcp://"+ln.Addr().String(), client.WithCodec(codec.Raw()))
	ctx := context.Background()
	start := time.Now()
	var e *tandem.Error
	if err := c.Call(ctx, "Test.Hasty", []byte{}, nil); !errors.As(err, &e) || e.Code != tandem.DeadlineExceeded || !e.Remote || time.Since(start) > 2*time.Second {
		t.Errorf("the method's timeout: %v after %v", err, time.Since(start))
	}
	if err := c.Call(ctx, "Test.Small", make([]byte, 1000), nil); err != nil {
		t.Error(err)
	}
	for _, opts := range [][]tandem.CallOption{nil, {client.Compressor("gzip")}} { // plain, and once it is unpacked
		err := c.Call(ctx, "Test.Small", make([]byte, 70_000), nil, opts...)
		if code := tandem.CodeOf(err); code != tandem.ResourceExhausted && code != tandem.InvalidArgument || tandem.MayHaveExecuted(err) {
			t.Errorf("a large message: %v", err)
		}
	}
	if err := c.Call(ctx, "Test.Small", make([]byte, 5<<20), nil); tandem.CodeOf(err) != tandem.ResourceExhausted || tandem.MayHaveExecuted(err) {
		t.Errorf("over the server's limit: %v", err)
	}
}
