package server_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// protocolTest is a server with the protocol talk, on an in-memory network.
type protocolTest struct {
	*testing.T

	srv *server.Server
	net *transport.Memory
	log bytes.Buffer
}

func newProtocolTest(t *testing.T, opts ...server.Option) *protocolTest {
	t.Helper()
	return newTestOf(t, talk{}, opts...)
}

func newTestOf(t *testing.T, protocol server.Protocol, opts ...server.Option) *protocolTest {
	t.Helper()
	p := &protocolTest{T: t, net: transport.NewMemory()}
	opts = append([]server.Option{
		server.WithLogger(slog.New(slog.NewTextHandler(&p.log, nil))), server.WithProtocols(protocol),
	}, opts...)
	p.srv = server.New(opts...)
	p.register("Echo", func(s string) string { return s })
	ln, err := p.net.Listen(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- p.srv.ServeListener(ln) }()
	t.Cleanup(func() {
		_ = p.srv.Close()
		if err := <-served; !errors.Is(err, server.ErrServerClosed) {
			t.Error(err)
		}
	})
	return p
}

func (p *protocolTest) register(name string, f any) {
	p.Helper()
	if err := p.srv.RegisterFunc(name, f); err != nil {
		p.Fatal(err)
	}
}

// dial returns a connection on which said has been sent, and a reader of it.
func (p *protocolTest) dial(said string) (net.Conn, *bufio.Reader) {
	p.Helper()
	c, err := p.net.Dial(p.Context(), "a")
	if err == nil && said != "" {
		_, err = io.WriteString(c, said)
	}
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { _ = c.Close() })
	return c, bufio.NewReader(c)
}

// wantLine reads a line.
func (p *protocolTest) wantLine(r *bufio.Reader, want string) {
	p.Helper()
	if got, err := r.ReadString('\n'); err != nil || got != want+"\n" {
		p.Errorf("read %q, %v; want %q", got, err, want)
	}
}

// A protocol gets all first bytes, however many reads they take.
func TestFirstBytesInPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProtocolTest(t)
		c, r := p.dial("")
		for _, b := range []byte("CALL Echo one\nCALL Echo two\n") {
			time.Sleep(100 * time.Millisecond)
			if _, err := c.Write([]byte{b}); err != nil {
				t.Fatal(err)
			}
		}
		p.wantLine(r, "one")
		p.wantLine(r, "two")
	})
}

// Connections that send nothing, stop in the middle of their first bytes, or speak no protocol
// of the server are closed in time and counted, and the first one is logged.
func TestUnrecognizedConnectionsAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProtocolTest(t, server.WithHandshakeTimeout(time.Second))
		for _, c := range []struct {
			said  string
			after time.Duration
		}{
			{"", time.Second},
			{"CAL", time.Second},
			{"\x93TN", time.Second},
			{"\x93TND\x01", time.Second}, // tandem's own, but not all of its preface
			{"HELO\n", 0},
			{"CALLS", 0},
			{strings.Repeat("x", server.MaxSniff), 0},
		} {
			start := time.Now()
			conn, _ := p.dial(c.said)
			if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Errorf("%.10q: %v", c.said, err)
			}
			if took := time.Since(start); took != c.after {
				t.Errorf("%.10q: closed after %v, want %v", c.said, took, c.after)
			}
		}
		polite, _ := p.dial("") // it closes without a byte, as health checks do
		_ = polite.Close()
		synctest.Wait()
		if n := p.srv.Unrecognized(); n != 7 {
			t.Errorf("%d strangers were counted, want 7", n)
		}
		if n := strings.Count(p.log.String(), "connection closed"); n != 1 {
			t.Errorf("%d of them were logged, want the first:\n%s", n, p.log.String())
		}
		time.Sleep(time.Minute)
		p.dial("HELO\n")
		synctest.Wait()
		if n := strings.Count(p.log.String(), "connection closed"); n != 2 {
			t.Errorf("%d were logged, want one more after a while", n)
		}
	})
}

// Detecting the protocol and tandem's own handshake share one timeout.
func TestHandshakeTimeoutIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProtocolTest(t, server.WithHandshakeTimeout(time.Second))
		start := time.Now()
		c, _ := p.dial("")
		time.Sleep(900 * time.Millisecond)
		_, _ = io.WriteString(c, "\x93TND")
		if _, err := c.Read(make([]byte, 1)); err == nil || time.Since(start) != time.Second {
			t.Errorf("%v after %v, want the end after 1 s", err, time.Since(start))
		}
	})
}

// Shutdown reads no more requests, waits for the running calls, and their responses arrive.
func TestShutdownOfForeignConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProtocolTest(t)
		p.register("Slow", func(ctx context.Context, _ string) (string, error) {
			time.Sleep(2 * time.Second)
			return "done", ctx.Err()
		})
		_, idle := p.dial("CALL Echo hello\n")
		p.wantLine(idle, "hello")
		c, r := p.dial("CALL Slow x\nCALL Ec")
		synctest.Wait()
		start := time.Now()
		stopped := make(chan error, 1)
		go func() { stopped <- p.srv.Shutdown(t.Context()) }()
		if _, err := idle.ReadByte(); !errors.Is(err, io.EOF) || time.Since(start) != 0 {
			t.Errorf("an idle connection: %v after %v", err, time.Since(start))
		}
		synctest.Wait() // until the other connection drains, too
		go func() { _, _ = io.WriteString(c, "ho late\n") }()
		p.wantLine(r, "done")
		if _, err := r.ReadByte(); !errors.Is(err, io.EOF) {
			t.Errorf("after the last answer: %v", err)
		}
		_ = c.Close()
		if err := <-stopped; err != nil || time.Since(start) > 3*time.Second {
			t.Errorf("Shutdown: %v after %v", err, time.Since(start))
		}
	})
}

// Close ends idle connections at once.
func TestCloseEndsForeignConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProtocolTest(t)
		_, r := p.dial("CALL Echo hello\n")
		p.wantLine(r, "hello")
		start := time.Now()
		if err := p.srv.Close(); err != nil || time.Since(start) != 0 {
			t.Errorf("Close: %v after %v", err, time.Since(start))
		}
		if _, err := r.ReadByte(); !errors.Is(err, io.EOF) {
			t.Errorf("the client: %v", err)
		}
	})
}

// When as many connections as may be in their handshake send nothing, the next one waits until
// the oldest of them has had 100 ms, and takes its place. Close does not wait for that.
func TestHandshakeLimitDelaysNewConnections(t *testing.T) {
	const most = 1024 // are greeted at a time
	for _, closes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := newProtocolTest(t, server.WithHandshakeTimeout(time.Second))
			for range most {
				p.dial("")
			}
			synctest.Wait()
			start := time.Now()
			late := make(chan string, 1)
			go func() {
				c, err := p.net.Dial(t.Context(), "a")
				if err != nil {
					late <- err.Error()
					return
				}
				defer c.Close()
				_, _ = io.WriteString(c, "CALL Echo hello\n")
				line, err := bufio.NewReader(c).ReadString('\n')
				late <- fmt.Sprint(line, err)
			}()
			synctest.Wait()
			want, after := "hello\n<nil>", 100*time.Millisecond
			if closes {
				if err := p.srv.Close(); err != nil {
					t.Error(err)
				}
				want, after = "EOF", 0
			}
			if got := <-late; got != want || time.Since(start) != after {
				t.Errorf("got %q after %v, want %q after %v", got, time.Since(start), want, after)
			}
		})
	}
}

// When the server drains, a protocol's Read returns io.EOF, as if the client had closed its
// side.
func TestReadsEndWhenTheServerDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ends := make(listener, 2)
		p := newProtocolTest(t, server.WithProtocols(ends))
		p.dial("LISTEN")
		synctest.Wait()
		if err := p.srv.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		for range cap(ends) {
			if err := <-ends; err != io.EOF { //nolint:errorlint // readers compare it
				t.Errorf("Read: %v", err)
			}
		}
	})
}

// listener is a protocol that reads on when the server drains.
type listener chan error

func (listener) Name() string { return "listener" }

func (listener) Match(first []byte) server.Verdict {
	if first[0] == 'L' {
		return server.Yes
	}
	return server.No
}

func (l listener) Serve(_ context.Context, c *server.Conn) error {
	c.Midway(true) // a deadline of its own changes nothing
	var err error
	for err == nil {
		_, err = c.Read(make([]byte, 10))
	}
	l <- err
	_, err = c.Read(make([]byte, 10))
	l <- err
	return err
}

// OnDrain also works when the connection drains already: it calls the function at once, in
// another goroutine.
func TestOnDrainInADrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProtocolTest(t, server.WithProtocols(late{}))
		p.dial("LATE")
		synctest.Wait()
		start := time.Now()
		if err := p.srv.Shutdown(t.Context()); err != nil || time.Since(start) > time.Second {
			t.Errorf("Shutdown: %v after %v", err, time.Since(start))
		}
	})
}

// late is a protocol that calls OnDrain only when the server drains already.
type late struct{}

func (late) Name() string { return "late" }

func (late) Match(first []byte) server.Verdict {
	if first[0] == 'L' {
		return server.Yes
	}
	return server.No
}

func (late) Serve(_ context.Context, c *server.Conn) error {
	<-c.Draining()
	time.Sleep(time.Millisecond) // the connection drains after the server
	told := make(chan bool)
	c.OnDrain(func() { told <- true })
	<-told
	return nil
}

// When Shutdown's context ends, so do the handlers' contexts.
func TestShutdownCutsForeignCallsOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProtocolTest(t)
		why := make(chan error, 1)
		p.register("Wait", func(ctx context.Context, _ string) error {
			<-ctx.Done()
			why <- ctx.Err()
			return ctx.Err()
		})
		p.dial("CALL Wait x\n")
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if err := p.srv.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("Shutdown: %v after %v", err, time.Since(start))
		}
		if err := <-why; !errors.Is(err, context.Canceled) {
			t.Errorf("the handler's context: %v", err)
		}
	})
}

// A client that closes its connection after a complete request lets the call finish; an error
// of the protocol ends the calls.
func TestEndOfForeignConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProtocolTest(t)
		ended := make(chan error, 1)
		p.register("Wait", func(ctx context.Context, _ string) error {
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
			ended <- ctx.Err()
			return nil
		})
		c, _ := p.dial("CALL Wait x\n")
		synctest.Wait()
		_ = c.Close()
		if err := <-ended; err != nil {
			t.Errorf("after EOF the call was ended: %v", err)
		}
		p.dial("CALL Wait x\nHELO\n")
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("after an error of the protocol: %v", err)
		}
	})
}

// The limits apply to other protocols: open calls, the server's and the method's timeout, the
// number of connections.
func TestLimitsOfForeignConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProtocolTest(t, server.WithMaxOpenCalls(2), server.WithTimeout(time.Second), server.WithMaxConnections(2))
		var running, most atomic.Int32
		p.register("Wait", func(ctx context.Context, _ string) error {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			<-ctx.Done()
			return ctx.Err()
		})
		start := time.Now()
		_, r := p.dial(strings.Repeat("CALL Wait x\n", 6))
		for range 6 {
			p.wantLine(r, "failed: context deadline exceeded")
		}
		if most.Load() != 2 || time.Since(start) != 3*time.Second {
			t.Errorf("%d calls at a time, six took %v; want 2, 3 s", most.Load(), time.Since(start))
		}
		second, _ := p.dial("CALL Echo x\n")
		synctest.Wait()
		start = time.Now()
		_, third := p.dial("") // a write would race with its end
		if _, err := third.ReadByte(); !errors.Is(err, io.EOF) || time.Since(start) != 0 {
			t.Errorf("a third connection: %v after %v", err, time.Since(start))
		}
		_ = second.Close()
		synctest.Wait()
		_, third = p.dial("CALL Echo x\n")
		p.wantLine(third, "x")
	})
}

// Panics, and handlers that end their goroutine, fail only their own call, also in functions of
// OnEnd.
func TestPanicsOfForeignCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProtocolTest(t)
		p.register("Panics", func(string) error { panic("oh") })
		p.register("Exits", func(string) error { runtime.Goexit(); return nil })
		p.register("Late", func(ctx context.Context, _ string) error {
			tandem.FromContext(ctx).OnEnd(func(error) { panic("late") })
			return nil
		})
		p.register("Leaves", func(ctx context.Context, _ string) error {
			tandem.FromContext(ctx).OnEnd(func(error) { runtime.Goexit() })
			return nil
		})
		p.register("Error", func(string) error { var e *ownerless; return e })
		for method, want := range map[string]string{
			"Panics": "failed: internal: method Panics panicked",
			"Error":  "failed: internal: method Error panicked",
			"Exits":  "failed: internal: method Exits ended its goroutine",
			"Late":   "failed: internal: method Late panicked",
			"Leaves": "failed: internal: method Leaves ended its goroutine",
		} {
			_, r := p.dial("CALL " + method + " x\nCALL Echo on\n")
			lines := map[string]bool{}
			for range 2 {
				line, _ := r.ReadString('\n')
				lines[line] = true
			}
			if !lines[want+"\n"] || !lines["on\n"] {
				t.Errorf("%s: %v", method, lines)
			}
		}
	})
}

// ownerless is an error whose Error panics for a nil pointer.
type ownerless struct{ owner string }

func (o *ownerless) Error() string { return "of " + o.owner }

// A peer that does not read delays only its own responses, in bounded memory, and is closed in
// the end.
func TestForeignPeerThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProtocolTest(t, server.WithMaxOpenCalls(2))
		var made atomic.Int32
		p.register("Large", func(string) string {
			made.Add(1)
			return strings.Repeat("x", 1<<20)
		})
		start := time.Now()
		c, _ := p.dial("CALL Echo x\n")
		go func() {
			for range 20 {
				_, _ = io.WriteString(c, "CALL Large x\n")
			}
		}()
		synctest.Wait()
		if n := made.Load(); n > 8 { // written, queued, and two that wait
			t.Errorf("%d answers of 1 MiB were made for a peer that does not read", n)
		}
		time.Sleep(11 * time.Second)
		if _, err := io.WriteString(c, "CALL Echo x\n"); err == nil {
			t.Errorf("the connection lives after %v", time.Since(start))
		}
	})
}

// A peer on a slow link that reads its response steadily, 20 KiB a second, gets all of it.
func TestForeignPeerThatReadsSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size, rate = 1 << 20, 20 << 10
		p := newProtocolTest(t)
		p.register("Large", func(string) string { return strings.Repeat("x", size) })
		c, _ := p.dial("CALL Large x\n")
		for got := 0; got < size; {
			time.Sleep(time.Second)
			n, err := io.ReadFull(c, make([]byte, min(rate, size-got)))
			if got += n; err != nil {
				t.Fatalf("%v after %d bytes", err, got)
			}
		}
	})
}

// words is a protocol that sends the words of a channel, "last" by SendLast.
type words struct{ say, failed chan string }

func (words) Name() string { return "words" }

func (words) Match([]byte) server.Verdict { return server.Yes }

func (w words) Serve(_ context.Context, c *server.Conn) error {
	var sends sync.WaitGroup
	for word := range w.say {
		send := c.Send
		if word == "last\n" {
			send = c.SendLast
		}
		sends.Go(func() {
			if err := send(func(dst []byte) ([]byte, error) { return append(dst, word...), nil }); err != nil {
				w.failed <- word + err.Error()
			}
		})
	}
	sends.Wait()
	return nil
}

// Everything that was sent before the last response arrives, even if it was not yet written
// when the last was sent. Later responses fail.
func TestSendLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		w := words{say: make(chan string), failed: make(chan string, 1)}
		srv := server.New()
		served := make(chan error, 1)
		go func() { served <- srv.ServeProtocol(far, w) }()
		for _, word := range []string{"first\n", "second\n", "last\n", "late\n"} {
			w.say <- word
			synctest.Wait() // the first is being written, the others are queued
		}
		if got := <-w.failed; got != "late\n"+net.ErrClosed.Error() {
			t.Errorf("failed: %q", got)
		}
		if got, err := io.ReadAll(near); err != nil || string(got) != "first\nsecond\nlast\n" {
			t.Errorf("read %q, %v", got, err)
		}
		close(w.say) // the connection has ended before Serve has
		if err := errors.Join(<-served, srv.Close()); err != nil {
			t.Error(err)
		}
	})
}
