package server_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// contexts are all contexts that a handler was called with. Keeping them, which MethodReuse
// forbids, makes sure that a new context can't have the address of an old one.
type contexts struct {
	mu   sync.Mutex
	seen map[context.Context]bool
}

func (c *contexts) keep(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[ctx] = true
}

// distinct makes calls of f and returns how many contexts it saw.
func distinct(t *testing.T, calls int, f func(context.Context, *int) (*int, error), opts ...server.Option) int {
	t.Helper()
	kept := &contexts{seen: map[context.Context]bool{}}
	srv := server.New(opts...)
	err := server.Handle(srv, "Some.Method", func(ctx context.Context, n *int) (*int, error) {
		kept.keep(ctx)
		return f(ctx, n)
	}, server.MethodReuse())
	if err != nil {
		t.Fatal(err)
	}
	network := transport.NewMemory()
	serve(t, srv, network, "a")
	c := dialMemory(t, network)
	for i := range calls {
		var reply int
		err := c.Call(t.Context(), "Some.Method", i, &reply)
		if err == nil && reply != i {
			t.Fatalf("call %d was answered with %d", i, reply)
		}
	}
	kept.mu.Lock()
	defer kept.mu.Unlock()
	return len(kept.seen)
}

func TestContextIsUsedAgain(t *testing.T) {
	const calls = 200
	echo := func(_ context.Context, n *int) (*int, error) { return n, nil }
	if n := distinct(t, calls, echo); n == calls { // under the race detector a sync.Pool drops some items
		t.Errorf("%d contexts for %d calls", n, calls)
	}
}

// In these cases a context may still be in use after the handler has returned, so no later call
// gets it.
func TestContextIsNotUsedAgain(t *testing.T) {
	const calls = 200
	echo := func(_ context.Context, n *int) (*int, error) { return n, nil }
	for _, c := range []struct {
		name   string
		method func(context.Context, *int) (*int, error)
		opts   []server.Option
	}{
		{"its Done was called", func(ctx context.Context, n *int) (*int, error) {
			_ = ctx.Done()
			return n, nil
		}, nil},
		{"a context was derived from it", func(ctx context.Context, n *int) (*int, error) {
			_, cancel := context.WithCancel(ctx)
			defer cancel()
			return n, nil
		}, nil},
		{"an error", func(context.Context, *int) (*int, error) { return nil, tandem.Errorf(tandem.NotFound, "on purpose") }, nil},
		{"a panic", func(context.Context, *int) (*int, error) { panic("on purpose") }, []server.Option{server.WithLogger(quiet)}},
		{"an interceptor", echo, []server.Option{server.WithInterceptors(func(next tandem.Func) tandem.Func { return next })}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if n := distinct(t, calls, c.method, c.opts...); n != calls {
				t.Errorf("%d contexts for %d calls", n, calls)
			}
		})
	}
}

// A call that gets the context of an earlier call sees none of that call's metadata or trailer.
func TestContextIsUsedAgainClean(t *testing.T) {
	srv := server.New()
	err := server.Handle(srv, "Some.Method", func(ctx context.Context, n *int) (*int, error) {
		call := tandem.FromContext(ctx)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if got, want := call.Metadata.Get("n"), fmt.Sprint(*n); *n%2 == 0 && got != want || *n%2 == 1 && got != "" {
			return nil, tandem.Errorf(tandem.Internal, "call %d has the metadata of %q", *n, got)
		}
		if call.Trailer != nil {
			return nil, tandem.Errorf(tandem.Internal, "call %d has a trailer", *n)
		}
		if *n%3 == 0 {
			call.Trailer = tandem.Metadata{}
			call.Trailer.Set("t", fmt.Sprint(*n))
		}
		return n, nil
	}, server.MethodReuse())
	if err != nil {
		t.Fatal(err)
	}
	network := transport.NewMemory()
	serve(t, srv, network, "a")
	c := dialMemory(t, network)
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := range 500 {
				n, reply := worker*1000+i, 0
				var opts []tandem.CallOption
				if n%2 == 0 {
					opts = append(opts, client.Metadata("n", fmt.Sprint(n)))
				}
				if err := c.Call(t.Context(), "Some.Method", n, &reply, opts...); err != nil || reply != n {
					t.Errorf("call %d: %d, %v", n, reply, err)
					return
				}
			}
		})
	}
	wg.Wait()
}
