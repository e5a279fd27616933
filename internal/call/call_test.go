package call

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/machine"
	"github.com/tandem-rpc/tandem/internal/session"
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
type methods map[string]*session.Target

func (m methods) find(name string) *session.Target { return m[name] }

func unary(f func(ctx context.Context, in []byte) ([]byte, error)) *session.Target {
	return &session.Target{Func: func(ctx context.Context, call *tandem.Call) error {
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

func echo() *session.Target {
	return unary(func(_ context.Context, in []byte) ([]byte, error) { return in, nil })
}

func streaming(f func(st tandem.MessageStream) error) *session.Target {
	return &session.Target{Method: machine.Method{Kind: tandem.Streaming}, Func: func(_ context.Context, call *tandem.Call) error {
		return f(call.Body.Stream())
	}}
}

// pair is two sessions that talk to each other.
type pair struct {
	client, server *session.Session
	clientEnv      *session.Env
	serverEnv      *session.Env
	close          func()
}

type pairOption func(client, server *session.Config)

func newPair(t testing.TB, dial func() (net.Conn, net.Conn), m methods, opts ...pairOption) *pair {
	t.Helper()
	cc := session.Config{Settings: wire.DefaultSettings(), Codecs: []tandem.Codec{rawCodec{}}, CompressAbove: 1 << 10}
	sc := cc
	sc.Resolve = m.find
	for _, o := range opts {
		o(&cc, &sc)
	}
	p := &pair{clientEnv: session.NewEnv(cc), serverEnv: session.NewEnv(sc)}
	a, b := dial()
	var wg sync.WaitGroup
	ready := make(chan *session.Session, 1)
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

// zeros compresses a message of zeros to its length: the smallest of bombs.
type zeros struct{}

func (zeros) Name() string { return "zeros" }

func (zeros) Compress(dst, src []byte) ([]byte, error) {
	return binary.LittleEndian.AppendUint64(dst, uint64(len(src))), nil
}

func (zeros) Decompress(dst, src []byte, limit int) ([]byte, error) {
	n := binary.LittleEndian.Uint64(src)
	if n > uint64(limit) {
		return dst, errors.New("too large")
	}
	return append(dst, make([]byte, n)...), nil
}

// bombs returns a pair of sessions that take messages of at most limit bytes, both
// ways.
func bombs(t *testing.T, limit int, m methods) *pair {
	return newPair(t, memory, m, func(c, s *session.Config) {
		for _, cfg := range []*session.Config{c, s} {
			cfg.Compressors = []tandem.Compressor{zeros{}}
			cfg.Settings.MaxMessage = uint64(limit)
		}
	})
}

func compressed(c *tandem.Call) { c.Compressor = "zeros" }

// A message that is small when it arrives and too large when it is decompressed is
// refused, wherever messages arrive.
func TestDecompressionBombs(t *testing.T) {
	const limit = 32 << 10
	for name, exchange := range map[string]func(p *Caller, size int) error{
		"request": func(c *Caller, size int) error {
			return c.Call(context.Background(), "take", make([]byte, size), nil, compressed)
		},
		"answer": func(c *Caller, size int) error {
			var reply []byte
			return c.Call(context.Background(), "give", fmt.Append(nil, size), &reply, compressed)
		},
		"stream message to the server": func(c *Caller, size int) error {
			st, err := c.OpenStream(context.Background(), "swallow", compressed)
			if err != nil {
				return err
			}
			defer st.Close()
			var reply []byte
			return errors.Join(st.SendMsg(make([]byte, size)), st.RecvMsg(&reply))
		},
		"stream message to the client": func(c *Caller, size int) error {
			st, err := c.OpenStream(context.Background(), "spit", compressed)
			if err != nil {
				return err
			}
			defer st.Close()
			var message []byte
			return errors.Join(st.SendMsg(fmt.Append(nil, size)), st.RecvMsg(&message))
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := bombs(t, limit, bombMethods())
			caller := &Caller{Session: p.client, Codec: "raw"}
			if err := exchange(caller, limit); err != nil {
				t.Errorf("as large as allowed: %v", err)
			}
			if err := exchange(caller, limit+1); err == nil || !strings.Contains(err.Error(), "too large") {
				t.Errorf("a byte more: %v", err)
			}
		})
	}
}

// bombMethods returns methods that take messages of zeros, and return them in the requested size.
func bombMethods() methods {
	sized := func(in []byte) (out []byte) {
		var n int
		_, _ = fmt.Sscan(string(in), &n)
		return make([]byte, n)
	}
	return methods{
		"take": unary(func(context.Context, []byte) ([]byte, error) { return nil, nil }),
		"give": unary(func(_ context.Context, in []byte) ([]byte, error) { return sized(in), nil }),
		"swallow": streaming(func(st tandem.MessageStream) error {
			var m []byte
			if err := st.RecvMsg(&m); err != nil {
				return err
			}
			return st.SendMsg(nil)
		}),
		"spit": streaming(func(st tandem.MessageStream) error {
			var m []byte
			if err := st.RecvMsg(&m); err != nil {
				return err
			}
			return st.SendMsg(sized(m))
		}),
	}
}

// A stream that its handler never accepts is given up, and its slot is freed.
func TestStreamThatIsNeverAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, memory, methods{"coy": {Method: machine.Method{Kind: tandem.Streaming}, Func: func(ctx context.Context, _ *tandem.Call) error {
			<-ctx.Done()
			return ctx.Err()
		}}})
		time.AfterFunc(time.Hour, p.client.Close)
		caller := &Caller{Session: p.client, Codec: "raw"}
		start := time.Now()
		_, err := caller.OpenStream(context.Background(), "coy")
		if took := time.Since(start); took != StreamOpening || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v after %v", err, took)
		}
		synctest.Wait()
		for name, s := range map[string]*session.Session{"client": p.client, "server": p.server} {
			if ours, theirs := s.Outstanding(); ours+theirs != 0 {
				t.Errorf("%s: %d calls of its own and %d of the peer's are open", name, ours, theirs)
			}
		}
	})
}
