package client_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// heard is a server with room for one call at a time, which records the arguments that it
// receives.
type heard struct {
	release chan struct{} // ends Test.Block

	mu   sync.Mutex
	said []string
}

func (h *heard) register(srv *server.Server) error {
	return errors.Join(
		server.Handle(srv, "Test.Block", func(_ context.Context, b *[]byte) (*[]byte, error) { <-h.release; return b, nil }),
		server.Handle(srv, "Test.Say", func(_ context.Context, b *[]byte) (*[]byte, error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.said = append(h.said, string(*b))
			return b, nil
		}),
	)
}

// An attempt that an interceptor leaves running sends the arguments of its call, though that
// call is over and others were made since. An attempt that begins after the end of its call is
// refused.
func TestAttemptOutlivesItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &heard{release: make(chan struct{})}
		mem := transport.NewMemory()
		serveOne(t, mem, h.register)
		var next tandem.Func
		var late *tandem.Call
		left := make(chan error, 1)
		leave := func(f tandem.Func) tandem.Func {
			return func(ctx context.Context, call *tandem.Call) error {
				if call.HashKey != "first" {
					return f(ctx, call)
				}
				next, late = f, call.Clone()
				begun := call.Clone()
				go func() { left <- f(context.Background(), begun) }()
				synctest.Wait() // it waits for room
				return tandem.Errorf(tandem.Aborted, "another attempt has won")
			}
		}
		c := dial(t, "mem://a", client.WithTransport("mem", mem), client.WithAttemptInterceptors(leave),
			client.WithTimeout(0), client.WithCodec(codec.Raw()))
		blocked := c.Go(t.Context(), "Test.Block", []byte{}, nil, nil)
		synctest.Wait()
		err := c.Call(t.Context(), "Test.Say", []byte("first call's argument"), nil, client.HashKey("first"))
		if tandem.CodeOf(err) != tandem.Aborted {
			t.Errorf("got %v", err)
		}
		for range 20 { // they may get the memory of the first
			_ = c.Call(t.Context(), "Test.Say", []byte("SOMEBODY ELSE'S CALL."), nil, client.Timeout(time.Millisecond))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := next(ctx, late); tandem.CodeOf(err) != tandem.Canceled || tandem.MayHaveExecuted(err) {
			t.Errorf("a late attempt: %v", err)
		}
		close(h.release)
		if err := errors.Join(<-left, (<-blocked.Done).Error); err != nil {
			t.Error(err)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if len(h.said) != 1 || h.said[0] != "first call's argument" {
			t.Errorf("the server was told %q", h.said)
		}
	})
}

// serveOne serves with room for one call on each connection.
func serveOne(t *testing.T, mem *transport.Memory, register func(*server.Server) error) {
	t.Helper()
	srv := server.New(server.WithMaxOpenCalls(1))
	ln, err := mem.Listen(t.Context(), "a")
	if err := errors.Join(err, register(srv)); err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	t.Cleanup(func() {
		_ = srv.Close()
		<-served
	})
}

// A client may be closed at any time, also while a call in another goroutine starts a goroutine
// that Close waits for. The race detector would find an error.
func TestCloseBesideCalls(t *testing.T) {
	mem := transport.NewMemory()
	serveOn(t, mem, "a", methods)
	for range 50 {
		c := dial(t, "mem://a", client.WithTransport("mem", mem))
		if err := c.Call(t.Context(), "Arith.Mul", &Args{1, 2}, nil); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		called := make(chan struct{}, 6)
		for range cap(called) {
			wg.Go(func() {
				called <- struct{}{}
				for c.Call(t.Context(), "Arith.Mul", &Args{1, 2}, nil) == nil {
				}
			})
		}
		<-called
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
	}
}
