package server_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

func dialMemory(t *testing.T, network tandem.Transport) *client.Client {
	t.Helper()
	c, err := client.Dial("mem://a", client.WithTransport("mem", network))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// An error of a handler without a code reaches the caller as Unknown.
func TestErrorWithoutCode(t *testing.T) {
	srv := server.New()
	network := transport.NewMemory()
	serve(t, srv, network, "a")
	fail := &tandem.Error{Message: "out of stock"}
	if err := errors.Join(
		server.Handle(srv, "Test.Call", func(context.Context, *int) (*int, error) { return nil, fail }),
		server.HandleStream(srv, "Test.Stream", func(context.Context, *tandem.Stream[int, int]) error { return fail }),
	); err != nil {
		t.Fatal(err)
	}
	c := dialMemory(t, network)
	err := c.Call(t.Context(), "Test.Call", 1, new(int))
	wantUnknown(t, "call", err)
	s, err := client.Stream[int, int](t.Context(), c, "Test.Stream")
	if err == nil {
		_, err = s.Recv()
	}
	wantUnknown(t, "stream", err)
}

func wantUnknown(t *testing.T, what string, err error) {
	t.Helper()
	var e *tandem.Error
	if !errors.As(err, &e) || e.Code != tandem.Unknown || e.Message != "out of stock" || e.NotExecuted {
		t.Errorf("%s: got %#v", what, err)
	}
}

// An interceptor may fail with the error of another call, which never ran. Once its own call's
// method has run, the caller must not see NotExecuted.
func TestErrorOfAnInterceptorAfterTheMethodMayHaveExecuted(t *testing.T) {
	elsewhere := &tandem.Error{Code: tandem.Unavailable, Message: "the audit log is not reachable", NotExecuted: true}
	for name, c := range map[string]struct {
		before, after error
		ran           int64
	}{
		"before the method": {elsewhere, nil, 0},
		"after the method":  {nil, elsewhere, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var ran atomic.Int64
			srv := server.New(server.WithInterceptors(func(next tandem.Func) tandem.Func {
				return func(ctx context.Context, call *tandem.Call) error {
					if c.before != nil {
						return c.before
					}
					if err := next(ctx, call); err != nil {
						return err
					}
					return c.after
				}
			}))
			network := transport.NewMemory()
			serve(t, srv, network, "a")
			if err := server.Handle(srv, "Test.Pay", func(_ context.Context, n *int) (*int, error) { ran.Add(1); return n, nil }); err != nil {
				t.Fatal(err)
			}
			err := dialMemory(t, network).Call(t.Context(), "Test.Pay", 1, nil)
			if tandem.CodeOf(err) != tandem.Unavailable || ran.Load() != c.ran || tandem.MayHaveExecuted(err) != (c.ran > 0) {
				t.Errorf("the method ran %d times: %#v", ran.Load(), err)
			}
			if !elsewhere.NotExecuted {
				t.Error("the interceptor's own error was changed")
			}
		})
	}
}

// Arguments that don't decode are known not to have run, whatever stands before the method; unless
// an interceptor has run it before.
func TestBadArgumentsHaveNotExecuted(t *testing.T) {
	once := func(next tandem.Func) tandem.Func { return next }
	again := func(next tandem.Func) tandem.Func {
		return func(ctx context.Context, call *tandem.Call) error {
			first := *call
			first.Body = emptyBody{}
			_ = next(ctx, &first) // the second one's error is the call's
			return next(ctx, call)
		}
	}
	for name, c := range map[string]struct {
		opts []server.Option
		ran  int64
	}{
		"the method":     {nil, 0},
		"an interceptor": {[]server.Option{server.WithInterceptors(once)}, 0},
		"a plugin":       {[]server.Option{server.WithPlugins(&witness{diary: &diary{}})}, 0},
		"run twice":      {[]server.Option{server.WithInterceptors(again)}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var ran atomic.Int64
			srv := server.New(c.opts...)
			network := transport.NewMemory()
			serve(t, srv, network, "a")
			if err := server.Handle(srv, "Test.Pay", func(_ context.Context, n *int) (*int, error) { ran.Add(1); return n, nil }); err != nil {
				t.Fatal(err)
			}
			err := dialMemory(t, network).Call(t.Context(), "Test.Pay", "not a number", nil)
			if tandem.CodeOf(err) != tandem.InvalidArgument || ran.Load() != c.ran || tandem.MayHaveExecuted(err) != (c.ran > 0) {
				t.Errorf("the method ran %d times: %#v", ran.Load(), err)
			}
		})
	}
}

// emptyBody is a body of zero values.
type emptyBody struct{}

func (emptyBody) Decode(any) error             { return nil }
func (emptyBody) Encode(any) error             { return nil }
func (emptyBody) Stream() tandem.MessageStream { return nil }

// A method may return the error of another call that it made, which never ran. As the method
// itself has run, the caller must not see NotExecuted.
func TestErrorOfAMethodMayHaveExecuted(t *testing.T) {
	var ran atomic.Int64
	network := transport.NewMemory()
	for _, address := range []string{"a", "b"} {
		srv := server.New()
		serve(t, srv, network, address)
		if err := srv.RegisterFunc("Test.Pay", func(context.Context, *tandem.Call) error {
			ran.Add(1)
			return &tandem.Error{Code: tandem.Unavailable, Message: "the audit log is not reachable", NotExecuted: true}
		}); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.Dial("static://a,b?transport=mem", client.WithTransport("mem", network), client.WithFailMode(client.Failover))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	err = c.Call(t.Context(), "Test.Pay", 1, nil)
	if tandem.CodeOf(err) != tandem.Unavailable || !tandem.MayHaveExecuted(err) || ran.Load() != 1 {
		t.Errorf("the method ran %d times: %v", ran.Load(), err)
	}
}

// countedConn counts the bytes that are read. It is not comparable, and neither is its
// listener.
type countedConn struct {
	net.Conn
	read func(n int)
}

func (c countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read(n)
	return n, err
}

type countedListener struct {
	net.Listener
	read func(n int)
}

func (l countedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return countedConn{c, l.read}, err
}

type countedNetwork struct {
	tandem.Transport
	read func(n int)
}

func (n countedNetwork) Listen(ctx context.Context, address string) (net.Listener, error) {
	ln, err := n.Transport.Listen(ctx, address)
	return countedListener{ln, n.read}, err
}

// A user's connections and listeners may be of types that are not comparable.
func TestUncomparableConnections(t *testing.T) {
	var bytes atomic.Int64
	network := countedNetwork{transport.NewMemory(), func(n int) { bytes.Add(int64(n)) }}
	srv := server.New()
	serve(t, srv, network, "a")
	if err := server.Handle(srv, "Test.Nop", nop); err != nil {
		t.Fatal(err)
	}
	c := dialMemory(t, network)
	if err := c.Call(t.Context(), "Test.Nop", []byte("x"), nil); err != nil || bytes.Load() == 0 {
		t.Errorf("%v, %d bytes read", err, bytes.Load())
	}
	if list := srv.Addrs(); len(list) != 1 || list[0].String() != "a" {
		t.Errorf("it listens on %v", list)
	}
	if err := srv.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}
