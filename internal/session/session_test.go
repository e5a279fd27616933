package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/machine"
	"github.com/tandem-rpc/tandem/transport"
	"github.com/tandem-rpc/tandem/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rawCodec passes bytes through.
type rawCodec struct{}

func (rawCodec) Name() string { return "raw" }

func (rawCodec) Append(dst []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return dst, nil
	case []byte:
		return append(dst, v...), nil
	case *[]byte:
		return append(dst, *v...), nil
	}
	return dst, fmt.Errorf("raw: %T", v)
}

func (rawCodec) Decode(src []byte, v any) error {
	p, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("raw: %T", v)
	}
	*p = append((*p)[:0], src...)
	return nil
}

// methods is a table of handlers under test.
type methods map[string]*Target

func (m methods) find(name string) *Target { return m[name] }

func unary(f func(ctx context.Context, in []byte) ([]byte, error)) *Target {
	return &Target{Func: func(ctx context.Context, call *tandem.Call) error {
		var in []byte
		if err := call.Body.Decode(&in); err != nil {
			return err
		}
		out, err := f(ctx, in)
		if err != nil {
			return err
		}
		return call.Body.Encode(out)
	}}
}

func echo() *Target {
	return unary(func(_ context.Context, in []byte) ([]byte, error) { return in, nil })
}

func streaming(f func(st tandem.MessageStream) error) *Target {
	return &Target{Method: machine.Method{Kind: tandem.Streaming}, Func: func(_ context.Context, call *tandem.Call) error {
		return f(call.Body.Stream())
	}}
}

// pair is two sessions that talk to each other.
type pair struct {
	client, server *Session
	clientEnv      *Env
	serverEnv      *Env
	close          func()
}

type pairOption func(client, server *Config)

func newPair(t testing.TB, dial func() (net.Conn, net.Conn), m methods, opts ...pairOption) *pair {
	t.Helper()
	cc := Config{Settings: wire.DefaultSettings(), Codecs: []tandem.Codec{rawCodec{}}, CompressAbove: 1 << 10}
	sc := cc
	sc.Resolve = m.find
	for _, o := range opts {
		o(&cc, &sc)
	}
	p := &pair{clientEnv: NewEnv(cc), serverEnv: NewEnv(sc)}
	a, b := dial()
	var wg sync.WaitGroup
	ready := make(chan *Session, 1)
	wg.Go(func() {
		s, loop, err := p.serverEnv.Accept(context.Background(), b, nil, nil)
		ready <- s
		if err == nil {
			loop()
		}
	})
	client, err := p.clientEnv.Connect(context.Background(), a, "")
	p.server = <-ready
	if err != nil || p.server == nil {
		t.Fatalf("connect: %v", err)
	}
	p.client = client
	var once sync.Once
	p.close = func() {
		once.Do(func() {
			p.client.Close()
			p.server.Close()
			wg.Wait()
			p.clientEnv.Close(time.Minute)
			p.serverEnv.Close(time.Minute)
		})
	}
	t.Cleanup(p.close)
	return p
}

func memory() (net.Conn, net.Conn) {
	return transport.Pipe(&net.UnixAddr{Name: "client"}, &net.UnixAddr{Name: "server"})
}

func tcp(t testing.TB) func() (net.Conn, net.Conn) {
	return func() (net.Conn, net.Conn) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		accepted := make(chan net.Conn, 1)
		go func() {
			c, err := ln.Accept()
			if err != nil {
				t.Error(err)
			}
			accepted <- c
		}()
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		return c, <-accepted
	}
}

// plainConn hides what a socket can do beyond net.Conn, as TLS does.
type plainConn struct{ net.Conn }

func plain(t testing.TB) func() (net.Conn, net.Conn) {
	return func() (net.Conn, net.Conn) {
		a, b := tcp(t)()
		return plainConn{a}, plainConn{b}
	}
}

// each runs f over every read path: memory, a socket, a plain connection, and a
// connection that delivers its bytes itself.
func each(t *testing.T, f func(t *testing.T, dial func() (net.Conn, net.Conn))) {
	t.Run("memory", func(t *testing.T) { f(t, memory) })
	t.Run("tcp", func(t *testing.T) { f(t, tcp(t)) })
	t.Run("plain", func(t *testing.T) { f(t, plain(t)) })
	t.Run("pushed", func(t *testing.T) { f(t, pushed) })
}

func (p *pair) call(ctx context.Context, method string, message []byte) ([]byte, error) {
	return callOn(ctx, p.client, method, message)
}

func callOn(ctx context.Context, s *Session, method string, message []byte) ([]byte, error) {
	c := s.env.NewPending()
	c.Method, c.Codec, c.Message = method, "raw", message
	if d, ok := ctx.Deadline(); ok {
		c.Deadline = d
	}
	defer c.Release()
	if err := s.Do(ctx, c); err != nil {
		return nil, err
	}
	return bytes.Clone(c.Reply), nil
}

func TestEcho(t *testing.T) {
	each(t, func(t *testing.T, dial func() (net.Conn, net.Conn)) {
		p := newPair(t, dial, methods{"echo": echo()})
		for _, size := range []int{0, 1, 600, 65000, 65536, 65537, 200_000, 3 << 20} {
			msg := bytes.Repeat([]byte{byte(size), 7}, size/2+1)[:size]
			got, err := p.call(context.Background(), "echo", msg)
			if err != nil || !bytes.Equal(got, msg) {
				t.Fatalf("echo of %d bytes: got %d bytes, %v", size, len(got), err)
			}
		}
	})
}

func TestConcurrentEcho(t *testing.T) {
	each(t, func(t *testing.T, dial func() (net.Conn, net.Conn)) {
		p := newPair(t, dial, methods{"echo": echo()})
		var wg sync.WaitGroup
		for g := range 20 {
			wg.Go(func() {
				for i := range 30 {
					size := (g*131 + i*977) % 3000
					if i == 15 {
						size = 300_000
					}
					msg := bytes.Repeat([]byte(fmt.Sprintf("%d/%d;", g, i)), size/4+1)
					got, err := p.call(context.Background(), "echo", msg)
					if err != nil || !bytes.Equal(got, msg) {
						t.Errorf("caller %d call %d: %v", g, i, err)
						return
					}
				}
			})
		}
		wg.Wait()
	})
}

func TestErrors(t *testing.T) {
	each(t, func(t *testing.T, dial func() (net.Conn, net.Conn)) {
		p := newPair(t, dial, methods{"fail": unary(func(context.Context, []byte) ([]byte, error) {
			return nil, tandem.Errorf(tandem.NotFound, "no such thing").WithDetail("k", []byte("v"))
		}), "plain": unary(func(context.Context, []byte) ([]byte, error) { return nil, errors.New("divide by zero") })})
		_, err := p.call(context.Background(), "fail", nil)
		var e *tandem.Error
		if !errors.As(err, &e) || e.Code != tandem.NotFound || e.Message != "no such thing" || !e.Remote || e.NotExecuted || len(e.Details) != 1 {
			t.Errorf("got %#v", err)
		}
		if _, err = p.call(context.Background(), "plain", nil); tandem.CodeOf(err) != tandem.Unknown || err.Error() != "unknown: divide by zero" {
			t.Errorf("got %v", err)
		}
		if _, err = p.call(context.Background(), "none", nil); tandem.CodeOf(err) != tandem.Unimplemented || tandem.MayHaveExecuted(err) {
			t.Errorf("got %v", err)
		}
	})
}

func TestCancelReachesHandler(t *testing.T) {
	each(t, func(t *testing.T, dial func() (net.Conn, net.Conn)) {
		started, stopped := make(chan struct{}), make(chan error, 1)
		p := newPair(t, dial, methods{"wait": unary(func(ctx context.Context, _ []byte) ([]byte, error) {
			close(started)
			<-ctx.Done()
			stopped <- ctx.Err()
			return nil, ctx.Err()
		})})
		ctx, cancel := context.WithCancel(context.Background())
		go func() { <-started; cancel() }()
		if _, err := p.call(ctx, "wait", nil); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if err := <-stopped; !errors.Is(err, context.Canceled) {
			t.Errorf("handler got %v", err)
		}
	})
}

func TestStreams(t *testing.T) {
	each(t, func(t *testing.T, dial func() (net.Conn, net.Conn)) {
		p := newPair(t, dial, methods{"talk": streaming(func(st tandem.MessageStream) error {
			for {
				var m []byte
				if err := st.RecvMsg(&m); errors.Is(err, io.EOF) {
					return nil
				} else if err != nil {
					return err
				}
				if err := st.SendMsg(m); err != nil {
					return err
				}
			}
		})})
		c := p.clientEnv.NewPending()
		c.Method, c.Codec = "talk", "raw"
		st, err := p.client.Open(context.Background(), c, time.Now().Add(5*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		for i := range 120 {
			msg := bytes.Repeat([]byte{byte(i)}, i*1000)
			if err := st.SendMsg(msg); err != nil {
				t.Fatal(i, err)
			}
			var got []byte
			if err := st.RecvMsg(&got); err != nil || !bytes.Equal(got, msg) {
				t.Fatalf("message %d: %d bytes, %v", i, len(got), err)
			}
		}
		if err := st.CloseSend(); err != nil {
			t.Fatal(err)
		}
		var got []byte
		if err := st.RecvMsg(&got); !errors.Is(err, io.EOF) {
			t.Errorf("end: %v", err)
		}
	})
}
