package session

import (
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/wire"
)

// connectRaw returns a session and its peer's end of the connection, past the
// handshake: the peer is a server that does nothing by itself.
func connectRaw(t *testing.T, dial func() (net.Conn, net.Conn)) (*Session, net.Conn) {
	t.Helper()
	env := NewEnv(Config{Settings: wire.DefaultSettings(), Codecs: []tandem.Codec{rawCodec{}}})
	mine, peer := dial()
	send(t, peer, wire.AppendPreface(nil, rawSettings()))
	s, err := env.Connect(context.Background(), mine, "")
	if err != nil {
		t.Fatal(err)
	}
	head := make([]byte, wire.PrefaceLen)
	_, err = io.ReadFull(peer, head)
	_, n, bad := wire.ParsePrefaceHead(head)
	_, rest := io.ReadFull(peer, make([]byte, n))
	if err := errors.Join(err, bad, rest); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = peer.Close()
		s.Close()
		env.Close(time.Minute)
	})
	return s, peer
}

// readFrame returns the header of the next frame.
func readFrame(t *testing.T, c net.Conn) wire.Header {
	t.Helper()
	head := make([]byte, wire.HeaderLen)
	_, err := io.ReadFull(c, head)
	if err != nil {
		t.Fatal(err)
	}
	h, err := wire.ParseHeader(head)
	_, rest := io.ReadFull(c, make([]byte, h.Length))
	if err := errors.Join(err, rest); err != nil {
		t.Fatal(err)
	}
	return h
}

// When a handler closes the session, other requests that were read with its own do not run.
func TestEndInTheMiddleOfABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran atomic.Int64
		b := newBare(t, methods{
			"end": unary(func(ctx context.Context, _ []byte) ([]byte, error) {
				FromContext(ctx).Close()
				return nil, nil
			}),
			"next": unary(func(context.Context, []byte) ([]byte, error) { ran.Add(1); return nil, nil }),
		})
		batch := rawFrame(wire.TypeRequest, wire.FlagEnd, wire.MakeStream(0, 1), requestHead("end"))
		b.send(append(batch, rawFrame(wire.TypeRequest, wire.FlagEnd, wire.MakeStream(1, 2), requestHead("next"))...))
		<-b.ses.Done()
		synctest.Wait()
		if n := ran.Load(); n > 0 {
			t.Error("a call was begun after the end of its session")
		}
		b.stop()
	})
}

// After a malformed response the connection ends within farewellTime, also when the
// caller notices it while the reader waits for more.
func TestMalformedAnswerEndsTheConnection(t *testing.T) {
	for range 20 { // the reader and sendFarewell wake in any order
		synctest.Test(t, testMalformedAnswer)
	}
}

func testMalformedAnswer(t *testing.T) {
	t.Helper()
	s, peer := connectRaw(t, memory)
	failed := make(chan error, 1)
	go func() {
		_, err := callOn(context.Background(), s, "m", nil)
		failed <- err
	}()
	const reserved = 0x70
	id := readFrame(t, peer).Stream
	send(t, peer, rawFrame(wire.TypeResponse, wire.FlagAnswer|wire.FlagEnd|wire.FlagLast, id, []byte{reserved}))
	start := time.Now()
	if <-failed == nil {
		t.Error("a malformed answer was taken")
	}
	if err := s.Err(); !errors.Is(err, wire.ErrViolation) {
		t.Errorf("the session ended with %v", err)
	}
	if ended := s.env.Close(time.Minute); !ended || time.Since(start) > 2*farewellTime {
		t.Errorf("goroutines ended: %v, after %v", ended, time.Since(start))
	}
}

// The error of a handler's context never changes, and Done is closed with it,
// whether the handler looks at the one or the other first.
func TestContextErrIsStable(t *testing.T) {
	for name, look := range map[string]func(ctx context.Context){
		"Err alone":  func(context.Context) {},
		"Done first": func(ctx context.Context) { ctx.Done() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testContextErr(t, look) })
		})
	}
}

func testContextErr(t *testing.T, look func(ctx context.Context)) {
	const most = time.Second
	var kept context.Context
	target := unary(func(ctx context.Context, _ []byte) ([]byte, error) {
		look(ctx)
		time.Sleep(most) // until the deadline
		synctest.Wait()
		wantExpired(t, "at the deadline", ctx)
		kept = ctx
		return nil, nil
	})
	target.Timeout = most
	p := newPair(t, memory, methods{"m": target})
	if _, err := p.call(context.Background(), "m", nil); err != nil {
		t.Error(err)
	}
	synctest.Wait()
	wantExpired(t, "after the handler", kept)
	p.close()
}

func wantExpired(t *testing.T, when string, ctx context.Context) {
	t.Helper()
	err := ctx.Err()
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%s: %v", when, err)
	}
	select {
	case <-ctx.Done():
	default:
		t.Errorf("%s: Err is %v, and Done is not closed", when, err)
	}
}

// The session does not list a running one-way call, but the context of its handler
// ends with the session all the same, whenever the handler looks.
func TestOneWayContextEndsWithTheSession(t *testing.T) {
	for name, look := range map[string]struct {
		before, after func(ctx context.Context) error
	}{
		"Done before": {func(ctx context.Context) error { ctx.Done(); return ctx.Err() }, context.Context.Err},
		"Err before":  {context.Context.Err, context.Context.Err},
		"Err after":   {func(context.Context) error { return nil }, context.Context.Err},
		"Done after":  {func(context.Context) error { return nil }, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked, ended := make(chan error, 1), make(chan error, 1)
				var p *pair
				p = newPair(t, memory, methods{"m": unary(func(ctx context.Context, _ []byte) ([]byte, error) {
					asked <- look.before(ctx)
					<-p.server.Done()
					synctest.Wait()
					ended <- look.after(ctx)
					return nil, nil
				})})
				notifyOnce(t, p, "m", 1)
				if err := <-asked; err != nil {
					t.Errorf("before: %v", err)
				}
				p.client.Close()
				if err := <-ended; !errors.Is(err, context.Canceled) {
					t.Errorf("after: %v", err)
				}
				p.close()
			})
		})
	}
}

// After Retire a session still sends its one-way messages: those that wait for a
// write, and one that waits for credit.
func TestRetireSendsOneWayMessages(t *testing.T) {
	for name, c := range map[string]struct{ calls, size int }{
		"many":  {20, 50_000},
		"large": {1, 1_000_000},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ran atomic.Int64
				p := newPair(t, memory, methods{"m": unary(func(_ context.Context, in []byte) ([]byte, error) {
					if len(in) == c.size {
						ran.Add(1)
					}
					return nil, nil
				})})
				for range c.calls {
					notifyOnce(t, p, "m", c.size)
				}
				start := time.Now()
				p.client.Retire()
				select {
				case <-p.client.Done():
				case <-time.After(time.Minute): // its limit is below
				}
				synctest.Wait()
				if n := ran.Load(); n != int64(c.calls) {
					t.Errorf("%d of %d arrived", n, c.calls)
				}
				if took := time.Since(start); took > time.Second {
					t.Errorf("the session lived on for %v", took)
				}
				p.close()
			})
		})
	}
}

// A server that drains gets the response to its own call that is in flight.
func TestDrainAwaitsAnswerOfTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 1_000_000
		begun := make(chan struct{})
		p := newPair(t, memory, methods{}, func(client, _ *Config) {
			client.Resolve = methods{"big": unary(func(context.Context, []byte) ([]byte, error) {
				close(begun)
				return make([]byte, size), nil
			})}.find
		})
		answered := make(chan error, 1)
		go func() {
			got, err := callOn(context.Background(), p.server, "big", nil)
			if err == nil && len(got) != size {
				err = io.ErrUnexpectedEOF
			}
			answered <- err
		}()
		<-begun
		if err := p.server.Drain(context.Background(), "bye"); err != nil {
			t.Error(err)
		}
		if err := <-answered; err != nil {
			t.Errorf("the call that was answered: %v", err)
		}
		p.close()
	})
}

// An Env may be closed while goroutines that Close waits for are being started. The
// race detector would find an error.
func TestCloseBesideSpawn(t *testing.T) {
	for range 30 {
		env := NewEnv(Config{Settings: wire.DefaultSettings()})
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { env.Spawn(func() { time.Sleep(100 * time.Microsecond) }) }) // long enough to be waited for
		}
		runtime.Gosched()
		if !env.Close(time.Minute) {
			t.Error("a goroutine did not end")
		}
		wg.Wait()
		if env.Spawn(func() { t.Error("started after Close") }) {
			t.Error("spawn says that it started something after Close")
		}
	}
}
