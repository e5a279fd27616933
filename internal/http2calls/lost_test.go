package http2calls

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem/internal/http2"
)

// A connection that is lost after any byte of the response ends the call: with the response if that has
// come whole, else with an error that says that it may have run.
func TestLostInResponse(t *testing.T) {
	whole := bytes.Join([][]byte{
		frame(headers, endHeaders, 1, ok), frame(data, 0, 1, "re"), frame(ping, 0, 0, "12345678"), frame(data, 0, 1, "ply"), frame(headers, endHeaders|endStream, 1, finished),
	}, nil)
	for n := range len(whole) + 1 {
		synctest.Test(t, func(t *testing.T) {
			c := begin(t, Config{}, func(p *peer) error {
				if err := p.greet(""); err != nil {
					return err
				}
				if _, err := p.until(data); err != nil {
					return err
				}
				go func() { _ = ignore(p) }()
				_, err := p.Write(whole[:n])
				return err
			})
			got, err := call(t.Context(), c, "message")
			if n == len(whole) {
				if err != nil || got != "reply" {
					t.Errorf("%q, %v", got, err)
				}
			} else if e := failure(t, err); e.NotExecuted || e.Reset || e.Answered != (n >= 10) {
				t.Errorf("after %d bytes: %+v", n, e)
			}
			<-c.Done()
		})
	}
}

// Of a request whose connection is lost after any of its bytes the error never says that it was not
// executed if its header has arrived.
func TestLostInRequest(t *testing.T) {
	for n := range 60 {
		synctest.Test(t, func(t *testing.T) {
			var header atomic.Bool
			c := begin(t, Config{}, func(p *peer) error {
				if err := p.greet(""); err != nil {
					return err
				}
				if _, err := p.next(); err != nil { // the answer to the settings
					return err
				}
				got := make([]byte, n)
				if _, err := io.ReadFull(p, got); err != nil {
					return err
				}
				if n >= 9 && n >= 9+int(got[2]) {
					header.Store(true)
				}
				return nil
			})
			_, err := call(t.Context(), c, strings.Repeat("x", 100))
			if e := failure(t, err); e.NotExecuted && header.Load() {
				t.Errorf("after %d bytes: %+v", n, e)
			}
		})
	}
}

// A call that the connection can't take any more was not executed, and another connection may take it.
func TestCallAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := begin(t, Config{}, func(p *peer) error { return p.greet("") })
		<-c.Done()
		_, err := call(t.Context(), c, "message")
		if e := failure(t, err); !e.NotExecuted || !e.NotTaken {
			t.Errorf("%+v", e)
		}
	})
}

// After GOAWAY the calls that the server has taken end properly, the others were not executed, and the
// connection ends with the last.
func TestGoAway(t *testing.T) {
	for _, last := range []uint32{0, 1, 3, 1<<31 - 1} {
		synctest.Test(t, func(t *testing.T) {
			c := begin(t, Config{}, func(p *peer) error {
				if err := p.greet(""); err != nil {
					return err
				}
				for range 3 {
					if _, err := p.until(data); err != nil {
						return err
					}
				}
				err := p.send(goAway, 0, 0, words(last, 0))
				for stream := uint32(1); stream <= min(last, 5) && err == nil; stream += 2 {
					err = p.answer(stream, "reply")
				}
				return errors.Join(err, ignore(p))
			})
			var wg sync.WaitGroup
			var taken, not atomic.Int32
			for range 3 {
				wg.Go(func() {
					switch got, err := call(t.Context(), c, "message"); {
					case err == nil && got == "reply":
						taken.Add(1)
					case failure(t, err).NotExecuted && failure(t, err).NotTaken:
						not.Add(1)
					default:
						t.Errorf("%q, %v", got, err)
					}
				})
			}
			wg.Wait()
			want := int32(min(last, 5)+1) / 2
			if taken.Load() != want || not.Load() != 3-want {
				t.Errorf("last %d: %d calls were taken and %d not", last, taken.Load(), not.Load())
			}
			<-c.Done()
		})
	}
}

// A thousand calls at a server that allows ten at the same time wait for each other, in their order;
// those that can't wait were not executed.
func TestFewStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const allowed, calls = 10, 1000
		var open, most atomic.Int32
		c := begin(t, Config{}, func(p *peer) error {
			if err := p.greet(setting(3, allowed)); err != nil {
				return err
			}
			var sending sync.Mutex
			for {
				f, err := p.next()
				if err != nil {
					return err
				}
				if f.kind != data {
					continue
				}
				most.Store(max(most.Load(), open.Add(1)))
				time.AfterFunc(time.Second, func() {
					sending.Lock()
					defer sending.Unlock()
					open.Add(-1)
					_ = p.answer(f.stream, string(f.payload))
				})
			}
		})
		began := time.Now()
		var wg sync.WaitGroup
		for range calls {
			wg.Go(func() {
				if got, err := call(t.Context(), c, "x"); err != nil || got != "x" {
					t.Errorf("%q, %v", got, err)
				}
			})
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := call(ctx, c, "x"); !errors.Is(err, context.DeadlineExceeded) || !failure(t, err).NotExecuted {
			t.Errorf("the call that could not wait: %v", err)
		}
		wg.Wait()
		if took := time.Since(began); most.Load() != allowed || took != calls/allowed*time.Second {
			t.Errorf("%d at the same time, %v", most.Load(), took)
		}
		if len(c.waiting) != 0 || c.granted != 0 {
			t.Errorf("%d wait, %d are granted", len(c.waiting), c.granted)
		}
	})
}

// Settings may allow fewer streams, more of them, and other windows at any time.
func TestSettingsThatChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := begin(t, Config{}, func(p *peer) error {
			if err := p.greet(setting(3, 0)); err != nil {
				return err
			}
			time.Sleep(time.Second)
			if err := p.send(settings, 0, 0, setting(3, 1)+setting(4, 0)); err != nil {
				return err
			}
			go func() {
				for i := range uint32(7) {
					time.Sleep(time.Second)
					_ = p.send(settings, 0, 0, setting(4, i+1)) // a byte more each
				}
			}()
			return p.requests()
		})
		began := time.Now()
		if got, err := call(t.Context(), c, "message"); err != nil || got != "message" || time.Since(began) != 8*time.Second {
			t.Errorf("after %v: %q, %v", time.Since(began), got, err)
		}
	})
}

// The deadline and the context of a call end it at the server, too.
func TestGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := make(chan http2.Code, 10)
		c := begin(t, Config{}, func(p *peer) error {
			if err := p.greet(""); err != nil {
				return err
			}
			for {
				f, err := p.until(reset)
				if err != nil {
					return err
				}
				told <- http2.Code(f.word())
			}
		})
		late, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		canceled, stop := context.WithCancel(t.Context())
		time.AfterFunc(2*time.Second, stop)
		for _, row := range []struct {
			ctx  context.Context //nolint:containedctx // a row
			want error
		}{{canceled, context.Canceled}, {late, context.DeadlineExceeded}} {
			_, err := call(row.ctx, c, "message")
			if e := failure(t, err); !errors.Is(err, row.want) || e.NotExecuted || e.Answered {
				t.Errorf("%v, want %v; not executed: %v", err, row.want, e.NotExecuted)
			}
			if code := <-told; code != http2.Cancel {
				t.Error(code)
			}
		}
		if n := c.m.Streams(); n != 0 {
			t.Errorf("%d streams", n)
		}
	})
}

// dialer makes connections to servers that a test plays.
func dialer(t *testing.T, server func(n int, p *peer) error) func(context.Context) (net.Conn, error) {
	n := 0
	return func(context.Context) (net.Conn, error) {
		n++
		if mine := n; server != nil {
			return play(t, func(p *peer) error { return server(mine, p) }), nil
		}
		return nil, errors.New("nothing is there")
	}
}

// take makes a call on a connection of several.
func take(ctx context.Context, s *Conns, body string) (string, error) {
	x := newCall(body)
	err := s.Do(ctx, x)
	return string(x.Response), err
}

// Further connections are made while the server allows no more calls, as many as are allowed, and end
// when they are idle; one that ends is replaced.
func TestConns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var accepted, open atomic.Int32
		s := NewConns(Config{Stall: stall}, 3, dialer(t, func(n int, p *peer) error {
			accepted.Add(1)
			open.Add(1)
			defer open.Add(-1)
			if err := p.greet(setting(3, 1)); err != nil {
				return err
			}
			for {
				f, err := p.until(data)
				if err != nil {
					return err
				}
				time.Sleep(time.Second)
				if err := p.answer(f.stream, string(f.payload)); err != nil {
					return err
				}
				if string(f.payload) == "leave" {
					return p.send(goAway, 0, 0, words(f.stream, 0))
				}
			}
		}))
		var wg sync.WaitGroup
		began := time.Now()
		for range 9 {
			wg.Go(func() {
				if got, err := take(t.Context(), s, "x"); err != nil || got != "x" {
					t.Errorf("%q, %v", got, err)
				}
			})
			synctest.Wait() // calls that come at the same time may find the same connection
		}
		wg.Wait()
		if took := time.Since(began); took != 3*time.Second || accepted.Load() != 3 {
			t.Errorf("%v on %d connections", took, accepted.Load())
		}
		time.Sleep(3 * time.Minute)
		if open.Load() != 1 {
			t.Errorf("%d connections are left", open.Load())
		}
		for _, body := range []string{"x", "leave", "x"} {
			if got, err := take(t.Context(), s, body); err != nil || got != body {
				t.Errorf("%q, %v", got, err)
			}
		}
		if accepted.Load() != 4 {
			t.Errorf("%d connections", accepted.Load())
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if _, err := take(t.Context(), s, "x"); !errors.Is(err, ErrClosed) || open.Load() != 0 {
			t.Errorf("%v, %d connections", err, open.Load())
		}
	})
}

// Conns end when the server can't be connected to, unless they are to last. Close ends calls in flight.
func TestConnsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, lasting := range []bool{false, true} {
			s := NewConns(Config{Stall: stall, Lasting: lasting}, 1, dialer(t, nil))
			if _, err := s.Open(t.Context(), request, 1); err == nil || (s.Err() == nil) != lasting {
				t.Errorf("%v, %v", err, s.Err())
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			<-s.Done()
		}
		s := NewConns(Config{Stall: stall}, 1, dialer(t, func(_ int, p *peer) error { return errors.Join(p.greet(""), ignore(p)) }))
		ended := make(chan error)
		go func() {
			_, err := take(t.Context(), s, "x")
			ended <- err
		}()
		synctest.Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, ErrClosed) || failure(t, err).NotExecuted {
			t.Error(err)
		}
	})
}
