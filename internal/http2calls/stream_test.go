package http2calls

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem/internal/http2"
)

func envelope(flags byte, message string) string {
	return string(append([]byte{flags, 0, byte(len(message) >> 16), byte(len(message) >> 8), byte(len(message))}, message...))
}

// open opens a stream.
func open(t *testing.T, ctx context.Context, c *Conn) *Stream {
	t.Helper()
	s, err := c.Open(ctx, request, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Messages go both ways whatever the frames that carry them, and the end has the trailer.
func TestMessages(t *testing.T) {
	for _, piece := range []int{1, 3, 5, 7, 1000, 16384} {
		synctest.Test(t, func(t *testing.T) {
			c := begin(t, Config{Window: 1}, func(p *peer) error { return echo(p, piece) })
			s := open(t, t.Context(), c)
			sent := []string{"", "a", "abc", strings.Repeat("x", 3000)}
			for i, m := range sent {
				if err := s.Send(byte(i), []byte(m)); err != nil {
					t.Fatal(err)
				}
			}
			s.CloseSend()
			for i, m := range sent {
				if flags, got, err := s.Receive(); err != nil || int(flags) != i || string(got) != m {
					t.Fatalf("message %d: %d bytes, %v", i, len(got), err)
				}
			}
			if _, _, err := s.Receive(); err != io.EOF { //nolint:errorlint // as it is
				t.Error(err)
			}
			if head, err := s.Head(); err != nil || head.Status != 200 || len(s.Trailer().Fields) != 1 {
				t.Errorf("%+v, %v, %+v", head, err, s.Trailer())
			}
			if err := s.Send(0, []byte("late")); err != io.EOF { //nolint:errorlint // as it is
				t.Errorf("sent to a stream that has ended: %v", err)
			}
			s.Close()
			if n := c.m.Streams(); n != 0 {
				t.Errorf("%d streams", n)
			}
		})
	}
}

// echo sends back what a request has, in pieces.
func echo(p *peer, piece int) error {
	if err := p.greet(""); err != nil {
		return err
	}
	var body []byte
	for {
		f, err := p.until(data)
		if err != nil {
			return err
		}
		body = append(body, f.payload...)
		if f.flags&endStream != 0 {
			break
		}
	}
	err := p.send(headers, endHeaders, 1, ok)
	for len(body) > 0 && err == nil {
		n := min(piece, len(body))
		err = p.send(data, 0, 1, string(body[:n]))
		body = body[n:]
	}
	return errors.Join(err, p.send(headers, endHeaders|endStream, 1, finished), ignore(p))
}

// The end of a stream on this side, and of its context, resets it and wakes what waits.
func TestStreamEnds(t *testing.T) {
	for name, row := range map[string]struct {
		end  func(s *Stream, cancel func())
		want error
	}{
		"context": {func(_ *Stream, cancel func()) { cancel() }, context.Canceled},
		"Close":   {func(s *Stream, _ func()) { s.Close() }, ErrClosed},
		"Conn":    {func(s *Stream, _ func()) { _ = s.c.Close() }, ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				told := make(chan http2.Code, 1)
				c := begin(t, Config{Window: 1}, func(p *peer) error {
					if err := p.greet(""); err != nil {
						return err
					}
					f, err := p.until(reset)
					if err == nil {
						told <- http2.Code(f.word())
					}
					return err
				})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				s := open(t, ctx, c)
				received, sent := make(chan error, 1), make(chan error, 1)
				go func() {
					_, _, err := s.Receive()
					received <- err
				}()
				go func() { sent <- s.Send(0, make([]byte, 1<<20)) }()
				synctest.Wait()
				row.end(s, cancel)
				if err := <-received; !errors.Is(err, row.want) {
					t.Errorf("received: %v", err)
				}
				if err := <-sent; err != io.EOF { //nolint:errorlint // as it is
					t.Errorf("sent: %v", err)
				}
				if name != "Conn" {
					if code := <-told; code != http2.Cancel {
						t.Error(code)
					}
				}
				s.Close()
			})
		})
	}
}

// A server can send no more than the window of a stream until its messages are received, and other
// streams get theirs meanwhile. Data beyond the window ends the stream.
func TestStreamWindow(t *testing.T) {
	const window = 1 << 16
	synctest.Test(t, func(t *testing.T) {
		type credit struct {
			stream uint32
			bytes  uint32
		}
		credits := make(chan credit, 100)
		more := make(chan int)
		c := begin(t, Config{Window: window}, func(p *peer) error {
			if err := p.greet(""); err != nil {
				return err
			}
			for range 2 { // streams have begun
				if _, err := p.until(headers); err != nil {
					return err
				}
			}
			go func() {
				for f, err := p.next(); err == nil; f, err = p.next() {
					if f.kind == windowUpdate {
						credits <- credit{f.stream, f.word()}
					}
				}
			}()
			err := errors.Join(p.send(headers, endHeaders, 1, ok), p.send(headers, endHeaders, 3, ok))
			for n := range more {
				body := bytes.Repeat([]byte(envelope(0, strings.Repeat("x", 4091))), 4)
				for range n {
					err = errors.Join(err, p.send(data, 0, 1, string(body)))
				}
				err = errors.Join(err, p.send(data, 0, 3, envelope(0, "other")))
			}
			return err
		})
		slow, other := open(t, t.Context(), c), open(t, t.Context(), c)
		more <- window / 16384
		synctest.Wait()
		if len(credits) > 0 {
			t.Errorf("credit for what was not received: %+v", <-credits)
		}
		if _, got, err := other.Receive(); err != nil || string(got) != "other" {
			t.Errorf("the other stream: %q, %v", got, err)
		}
		for range window / 4096 {
			if _, got, err := slow.Receive(); err != nil || len(got) != 4091 {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		total := uint32(0)
		for len(credits) > 0 {
			if cr := <-credits; cr.stream == 1 {
				total += cr.bytes
			}
		}
		if total != window {
			t.Errorf("%d bytes of credit", total)
		}
		more <- window/16384 + 1
		synctest.Wait()
		var err error
		for n := 0; err == nil && n < 100; n++ {
			_, _, err = slow.Receive()
		}
		if e := failure(t, err); !e.Reset || e.Code != http2.FlowControlError {
			t.Errorf("beyond the window: %v", err)
		}
		if _, got, err := other.Receive(); err != nil || string(got) != "other" {
			t.Errorf("the other stream: %q, %v", got, err)
		}
		close(more)
		slow.Close()
		other.Close()
		_ = c.Close()
	})
}

// A sender waits for the server's window, and goes on when it opens.
func TestSenderWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := begin(t, Config{Window: 1}, func(p *peer) error {
			if err := p.greet(setting(4, 10)); err != nil {
				return err
			}
			total := 0
			for {
				f, err := p.next()
				if err != nil {
					return err
				}
				if f.kind != data {
					continue
				}
				total += len(f.payload)
				if f.flags&endStream != 0 {
					return errors.Join(p.answer(1, envelope(0, strings.Repeat("n", total))), ignore(p))
				}
				if len(f.payload) > 0 {
					go func() {
						time.Sleep(time.Second)
						_ = p.send(windowUpdate, 0, 1, words(uint32(len(f.payload))))
					}()
				}
			}
		})
		s := open(t, t.Context(), c)
		defer s.Close()
		began := time.Now()
		if err := s.Send(0, make([]byte, 95)); err != nil { // with its length ten times the window
			t.Error(err)
		}
		if took := time.Since(began); took < 8*time.Second {
			t.Errorf("it took %v", took)
		}
		s.CloseSend()
		if _, got, err := s.Receive(); err != nil || len(got) != 100 {
			t.Errorf("%d, %v", len(got), err)
		}
		time.Sleep(time.Minute) // until the server has sent all
	})
}

// Messages that have come before a reset, or the end of the connection, are received; what is not
// received goes back to the connection's window.
func TestReceivedBeforeTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams = 18 // three quarters of a window each: together more than half of the connection's
		credit := 0
		c := begin(t, Config{Window: 1}, func(p *peer) error {
			if err := p.greet(""); err != nil {
				return err
			}
			for range streams { // they have begun
				if _, err := p.until(headers); err != nil {
					return err
				}
			}
			seen := make(chan error, 1)
			go func() {
				for {
					f, err := p.next()
					if err != nil {
						seen <- nil
						return
					}
					if f.kind == windowUpdate && f.stream == 0 {
						credit += int(f.word())
					}
				}
			}()
			var err error
			for stream := uint32(1); stream < 2*streams && err == nil; stream += 2 {
				err = errors.Join(p.send(headers, endHeaders, stream, ok), p.send(data, 0, stream, strings.Repeat(envelope(0, "abc"), 2048)))
				for range 2 {
					err = errors.Join(err, p.send(data, 0, stream, strings.Repeat(envelope(0, "abc"), 2048)))
				}
				err = errors.Join(err, p.send(reset, 0, stream, words(2)))
			}
			time.Sleep(time.Minute)
			return errors.Join(err, p.Close(), <-seen)
		})
		var list []*Stream
		for range streams {
			list = append(list, open(t, t.Context(), c))
		}
		time.Sleep(time.Second)
		n, err := 0, error(nil)
		for err == nil {
			if _, _, err = list[0].Receive(); err == nil {
				n++
			}
		}
		if e := failure(t, err); !e.Reset || e.Code != http2.InternalError || n != 3*2048 {
			t.Errorf("%d messages, then %v", n, err)
		}
		for _, s := range list {
			s.Close()
		}
		synctest.Wait()
		if come := streams * 3 * 16384; credit < come/2 {
			t.Errorf("%d bytes of credit for %d that have come", credit, come)
		}
		time.Sleep(2 * time.Minute)
	})
}

// What is wrong with a stream's response is an error of Receive.
func TestBrokenStreams(t *testing.T) {
	for name, row := range map[string]struct {
		body string
		want error
	}{
		"too large":       {"\x00\x00\x10\x00\x01", ErrTooLarge},
		"a part":          {"\x00\x00\x00\x00\x05abc", ErrCut},
		"a part of sizes": {"\x00\x00", ErrCut},
		"claims much":     {"\x00\x00\x0f\x00\x00abc", ErrCut},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := begin(t, Config{Window: 1}, func(p *peer) error {
				if err := p.greet(""); err != nil {
					return err
				}
				if _, err := p.until(headers); err != nil {
					return err
				}
				return errors.Join(p.answer(1, row.body), ignore(p))
			})
			s := open(t, t.Context(), c)
			if _, _, err := s.Receive(); !errors.Is(err, row.want) {
				t.Errorf("%s: %v", name, err)
			}
			s.Close()
		})
	}
}
