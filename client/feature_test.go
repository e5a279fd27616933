package client_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/server"
)

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
	got := make(chan int, 100)
	_, addr := serve(t, func(srv *server.Server) error {
		return server.Handle(srv, "Test.Note", func(_ context.Context, n *int) (*struct{}, error) {
			got <- *n
			return nil, nil
		})
	})
	c := dial(t, "tcp://"+addr)
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
			call.Identity = "tester"
			return next(ctx, call)
		}
	}
	_, addr := serve(t, methods, server.WithInterceptors(note("server"), auth))
	c := dial(t, "tcp://"+addr, client.WithInterceptors(note("call")), client.WithAttemptInterceptors(note("attempt")))
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
	_, addr := serve(t, func(srv *server.Server) error {
		return server.Handle(srv, "Test.Hold", func(context.Context, *int) (*int, error) {
			<-release
			return new(int), nil
		}, server.MethodConcurrency(2, 3))
	})
	c := dial(t, "tcp://"+addr)
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

func TestMethodLimits(t *testing.T) {
	_, addr := serve(t, func(srv *server.Server) error {
		return errors.Join(
			server.Handle(srv, "Test.Hasty", wait, server.MethodTimeout(20*time.Millisecond)),
			server.Handle(srv, "Test.Small", echo, server.MethodMaxMessage(1000)))
	})
	c := dial(t, "tcp://"+addr, client.WithCodec(codec.Raw()))
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

func TestUnusableNamesAreRefusedLocally(t *testing.T) {
	if _, err := client.Dial("tcp://127.0.0.1:1", client.WithCodec(nil, longName{})); tandem.CodeOf(err) != tandem.InvalidArgument {
		t.Errorf("got %v", err)
	}
	if err := server.New(server.WithCodecs(longName{})).Serve("tcp", "127.0.0.1:0"); err == nil || errors.Is(err, server.ErrServerClosed) {
		t.Errorf("got %v", err)
	}
}

// longName is a codec whose name no peer would take.
type longName struct{ tandem.Codec }

func (longName) Name() string { return strings.Repeat("x", 33) }
