package http2calls

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/internal/lazyctx"
)

// tcp returns the ends of a connection over TCP.
func tcp(t *testing.T) (client, server net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	client, err = net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err = ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return client, server
}

// beginTCP begins HTTP/2 with a server that a test plays, after the settings, over TCP.
func beginTCP(t *testing.T, server func(p *peer) error) *Conn {
	t.Helper()
	ours, theirs := tcp(t)
	playOn(t, ours, theirs, func(p *peer) error { return errors.Join(p.greet(""), server(p)) })
	c, err := Start(t.Context(), ours, Config{Stall: stall})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// eventually waits until ok, which is called with the connection's mutex held.
func eventually(t *testing.T, c *Conn, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(100 * time.Microsecond) { // between looks
		c.mu.Lock()
		done := ok()
		c.mu.Unlock()
		if done {
			return
		}
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

// alone makes calls one at a time until the reader's role is parked. With stay it remains parked until
// the next call, however long that takes.
func alone(t *testing.T, c *Conn, stay bool) {
	t.Helper()
	eventually(t, c, "the role is never parked", func() bool {
		c.mu.Unlock()
		got, err := call(context.Background(), c, "echo")
		c.mu.Lock()
		if err != nil || got != "echo" {
			t.Errorf("%q, %v", got, err)
			return true
		}
		if stay && c.direct.parked {
			c.direct.clock.Stop()
		}
		return c.direct.parked
	})
}

// goCall makes a call, which sends its error when it has ended.
func goCall(ctx context.Context, c *Conn, body string) chan error {
	ended := make(chan error, 1)
	go func() {
		got, err := call(ctx, c, body)
		if err == nil && got != body {
			err = errors.New("got " + strconv.Quote(got))
		}
		ended <- err
	}()
	return ended
}

// goRead makes a call whose caller reads.
func goRead(ctx context.Context, t *testing.T, c *Conn, body string) chan error {
	t.Helper()
	alone(t, c, true)
	ended := goCall(ctx, c, body)
	eventually(t, c, "the caller does not read", func() bool { return c.direct.caller != nil || len(ended) > 0 })
	return ended
}

// result waits for the end of a call.
func result(t *testing.T, ended chan error) error {
	t.Helper()
	select {
	case err := <-ended:
		return err
	case <-time.After(10 * time.Second):
		t.Fatal("a call does not end")
		return nil
	}
}

func wantEnds(t *testing.T, calls ...chan error) {
	t.Helper()
	for _, ended := range calls {
		if err := result(t, ended); err != nil {
			t.Error(err)
		}
	}
}

// script answers requests for "echo", and passes others to f with their stream.
func script(f func(p *peer, stream uint32, body string) error) func(p *peer) error {
	return func(p *peer) error {
		for {
			m, err := p.until(data)
			if err != nil {
				return err
			}
			if body := string(m.payload); body == "echo" {
				err = p.answerAtOnce(m.stream, body)
			} else {
				err = f(p, m.stream, body)
			}
			if err != nil {
				return err
			}
		}
	}
}

// whole is a response.
func whole(stream uint32, body string) []byte {
	return bytes.Join([][]byte{frame(headers, endHeaders, stream, ok), frame(data, 0, stream, body), frame(headers, endHeaders|endStream, stream, finished)}, nil)
}

// answerAtOnce sends a response in one write.
func (p *peer) answerAtOnce(stream uint32, body string) error {
	_, err := p.Write(whole(stream, body))
	return err
}

// When calls come one at a time, their callers read.
func TestLoneCallerReads(t *testing.T) {
	answer := make(chan struct{})
	c := beginTCP(t, script(func(p *peer, stream uint32, body string) error {
		<-answer
		return p.answerAtOnce(stream, body)
	}))
	ended := goRead(t.Context(), t, c, "later")
	close(answer)
	wantEnds(t, ended)
	if !c.direct.parked {
		t.Error("the role is not parked after the call")
	}
}

// A caller that reads leaves when its context ends: within moments at its deadline, after a few ticks
// when it is cancelled. A goroutine reads on.
func TestReadingCallerIsRelieved(t *testing.T) {
	for name, row := range map[string]struct {
		end  func() (context.Context, func()) // a context, and what ends it
		want error
	}{
		"cancel": {func() (context.Context, func()) {
			ctx, cancel := context.WithCancel(context.Background())
			return ctx, cancel
		}, context.Canceled},
		"deadline": {func() (context.Context, func()) {
			ctx, cancel := context.WithTimeout(context.Background(), relieveAfter)
			return ctx, func() { <-ctx.Done(); cancel() }
		}, context.DeadlineExceeded},
		"deadline that nothing else watches": {func() (context.Context, func()) {
			ctx := lazyctx.With(context.Background(), time.Now().Add(relieveAfter))
			return ctx, func() {
				end, _ := ctx.Deadline()
				time.Sleep(time.Until(end)) // as sockets know no virtual time
			}
		}, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			best := time.Hour // the machine may be busy
			for range 10 {
				c := beginTCP(t, script(func(*peer, uint32, string) error { return nil }))
				alone(t, c, true)
				ctx, end := row.end()
				ended := goRead(ctx, t, c, "never")
				end()
				began := time.Now()
				if err := result(t, ended); !errors.Is(err, row.want) || failure(t, err).NotExecuted {
					t.Errorf("%v, want %v", err, row.want)
				}
				best = min(best, time.Since(began))
				wantEnds(t, goCall(t.Context(), c, "echo"))
				if _ = c.Close(); best < 3*reliefTick {
					return
				}
			}
			t.Errorf("it took %v at least", best)
		})
	}
}

// relieveAfter is the time that a call has in TestReadingCallerIsRelieved.
const relieveAfter = 60 * time.Millisecond

// Without calls the end of the connection is noticed all the same.
func TestParkedConnectionIsReadAgain(t *testing.T) {
	leave := make(chan struct{})
	c := beginTCP(t, func(p *peer) error {
		go func() { <-leave; _ = p.Close() }()
		return p.requests()
	})
	alone(t, c, false)
	close(leave)
	select {
	case <-c.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("it is not noticed that the server has left")
	}
}

// What has come while the role was parked is handled before the next call or stream is sent: another
// connection can take it.
func TestParkedConnectionIsPolledBeforeACall(t *testing.T) {
	for name, leave := range map[string]func(p *peer) error{
		"hang-up": func(p *peer) error { return p.Close() },
		"goaway":  func(p *peer) error { return p.send(goAway, 0, 0, words(1<<31-1, 0)) },
	} {
		for _, stream := range []bool{false, true} {
			t.Run(name+strings.Repeat(" stream", map[bool]int{true: 1}[stream]), func(t *testing.T) {
				told := make(chan *peer, 1)
				c := beginTCP(t, func(p *peer) error {
					told <- p
					return p.requests()
				})
				alone(t, c, true)
				if err := leave(<-told); err != nil {
					t.Fatal(err)
				}
				time.Sleep(3 * staleAfter) // sockets know no virtual time
				var err error
				if stream {
					_, err = c.Open(t.Context(), request, 100)
				} else {
					_, err = call(t.Context(), c, "message")
				}
				if e := failure(t, err); !e.NotTaken || !e.NotExecuted {
					t.Errorf("%+v; it must be certain that nothing ran", e)
				}
			})
		}
	}
}

// A stream that begins while the role is parked has a goroutine that reads.
func TestStreamAfterLoneCalls(t *testing.T) {
	c := beginTCP(t, func(p *peer) error { return p.requests() })
	alone(t, c, true)
	s, err := c.Open(t.Context(), request, 100)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Send(0, []byte("message")); err != nil {
		t.Fatal(err)
	}
	s.CloseSend()
	if _, got, err := s.Receive(); err != nil || string(got) != "message" {
		t.Errorf("%q, %v", got, err)
	}
}

// Responses of others that the caller reads wake them, before its own response and with it.
func TestReadingCallerWakesOthers(t *testing.T) {
	streams := make(chan uint32, 3)
	conn := make(chan *peer, 3)
	c := beginTCP(t, script(func(p *peer, stream uint32, _ string) error {
		streams <- stream
		conn <- p
		return nil
	}))
	first := goRead(t.Context(), t, c, "1")
	reads := <-streams
	second := goCall(t.Context(), c, "2")
	other := <-streams
	third := goCall(t.Context(), c, "3")
	last := <-streams
	p := <-conn
	if err := p.answerAtOnce(other, "2"); err != nil {
		t.Fatal(err)
	}
	wantEnds(t, second)
	if _, err := p.Write(append(whole(reads, "1"), whole(last, "3")...)); err != nil {
		t.Fatal(err)
	}
	wantEnds(t, first, third)
	wantEnds(t, goCall(t.Context(), c, "echo"))
}

// A call that waits while another caller reads goes on when that caller has its response.
func TestReadingIsHandedOver(t *testing.T) {
	streams := make(chan uint32, 2)
	conn := make(chan *peer, 2)
	c := beginTCP(t, script(func(p *peer, stream uint32, _ string) error {
		streams <- stream
		conn <- p
		return nil
	}))
	first := goRead(t.Context(), t, c, "1")
	reads := <-streams
	second := goCall(t.Context(), c, "2")
	waits, p := <-streams, <-conn
	if err := p.answerAtOnce(reads, "1"); err != nil {
		t.Fatal(err)
	}
	wantEnds(t, first)
	if err := p.answerAtOnce(waits, "2"); err != nil {
		t.Fatal(err)
	}
	wantEnds(t, second)
}

// The response, a GOAWAY and the end of the connection may come in one read.
func TestReadingCallerHasItsAnswer(t *testing.T) {
	c := beginTCP(t, script(func(p *peer, stream uint32, body string) error {
		_, err := p.Write(append(whole(stream, body), frame(goAway, 0, 0, words(stream, 0))...))
		return errors.Join(err, p.Close())
	}))
	wantEnds(t, goRead(t.Context(), t, c, "last"))
	<-c.Done()
}

// A call that the server has not taken fails so that another connection may take it, also if its caller
// reads.
func TestReadingCallerOnGoAway(t *testing.T) {
	c := beginTCP(t, script(func(p *peer, stream uint32, _ string) error {
		return p.send(goAway, 0, 0, words(stream-2, 0))
	}))
	if e := failure(t, result(t, goRead(t.Context(), t, c, "never"))); !e.NotTaken || !e.NotExecuted {
		t.Errorf("%+v", e)
	}
	<-c.Done()
}

// Close ends a call whose caller reads, and others.
func TestCloseWhileACallerReads(t *testing.T) {
	came := make(chan bool, 2)
	c := beginTCP(t, script(func(*peer, uint32, string) error { came <- true; return nil }))
	first := goRead(t.Context(), t, c, "never")
	second := goCall(t.Context(), c, "never")
	<-came
	<-came
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	for _, ended := range []chan error{first, second} {
		if err := result(t, ended); !errors.Is(err, ErrClosed) || failure(t, err).NotExecuted {
			t.Error(err)
		}
	}
}

// A part of a frame that came with the response is not lost with the role.
func TestReadingCallerKeepsHalfAFrame(t *testing.T) {
	asked := frame(ping, 0, 0, "12345678")
	answered := make(chan []byte, 1)
	rest := make(chan struct{})
	c := beginTCP(t, script(func(p *peer, stream uint32, body string) error {
		_, err := p.Write(append(whole(stream, body), asked[:5]...))
		<-rest
		_, failed := p.Write(asked[5:])
		f, none := p.until(ping)
		answered <- f.payload
		return errors.Join(err, failed, none)
	}))
	wantEnds(t, goRead(t.Context(), t, c, "message"))
	close(rest)
	if got := <-answered; string(got) != "12345678" {
		t.Errorf("the PING is answered with %q", got)
	}
}

// After a response that came in parts the next caller reads, too.
func TestReadingCallerGetsAnAnswerInParts(t *testing.T) {
	part := make(chan struct{})
	c := beginTCP(t, script(func(p *peer, stream uint32, body string) error {
		b := whole(stream, body)
		_, err := p.Write(b[:12])
		<-part
		_, failed := p.Write(b[12:])
		return errors.Join(err, failed)
	}))
	ended := goRead(t.Context(), t, c, "message")
	eventually(t, c, "the first part is not read", func() bool { return c.direct.caller != nil && c.direct.caller.headed })
	close(part)
	wantEnds(t, ended)
	if !c.direct.parked {
		t.Error("the role is not parked")
	}
}

// Connections that can't be read without waiting are read by a goroutine.
func TestCallersReadOnSocketsOnly(t *testing.T) {
	c := begin(t, Config{}, func(p *peer) error { return errors.Join(p.greet(""), p.requests()) })
	for range 2 * parkAfter {
		if got, err := call(context.Background(), c, "echo"); err != nil || got != "echo" {
			t.Errorf("%q, %v", got, err)
		}
	}
	if c.direct.parked {
		t.Error("the role is parked")
	}
}

// A connection that is lost after any byte of the response ends the call of a caller that reads like
// any other: see [TestLostInResponse].
func TestLostWhileACallerReads(t *testing.T) {
	for n := range len(whole(1, "never")) {
		c := beginTCP(t, script(func(p *peer, stream uint32, body string) error {
			_, err := p.Write(whole(stream, body)[:n])
			return errors.Join(err, p.Close())
		}))
		if e := failure(t, result(t, goRead(t.Context(), t, c, "never"))); e.NotExecuted || e.Reset || e.Answered != (n >= 10) {
			t.Errorf("after %d bytes: %+v", n, e)
		}
		<-c.Done()
		_ = c.Close()
	}
}

// echoServer answers requests, each apart and some of them late, with their bodies.
func echoServer(p *peer) error {
	var writing sync.Mutex
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		f, err := p.until(data)
		if err != nil {
			return err
		}
		reply := func() {
			writing.Lock()
			defer writing.Unlock()
			_ = p.answerAtOnce(f.stream, string(f.payload)) // an error comes with the next read
		}
		if rand.IntN(200) != 0 {
			reply()
			continue
		}
		wg.Go(func() {
			time.Sleep(time.Duration(rand.IntN(40)) * time.Millisecond) // long enough to be relieved
			reply()
		})
	}
}

// The number of callers changes, so that the role goes from goroutines to callers and back, with
// deadlines, cancellations and pauses in between. Each call gets its own response.
func TestReadingChangesHands(t *testing.T) {
	c := beginTCP(t, echoServer)
	var direct, apart atomic.Int64
	watching, stop := context.WithCancel(t.Context())
	var watcher, callers sync.WaitGroup
	watcher.Go(func() {
		for watching.Err() == nil {
			c.mu.Lock()
			switch {
			case c.direct.caller != nil:
				direct.Add(1)
			case c.m.Streams() > 0:
				apart.Add(1)
			}
			c.mu.Unlock()
			time.Sleep(50 * time.Microsecond) // between looks
		}
	})
	for caller := range 3 {
		callers.Go(func() {
			for n := range 3000 / (2*caller + 1) { // so that at last there is one
				if n%50 == 0 {
					time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond) // sometimes nothing calls
				}
				oneCall(t, c, strconv.Itoa(caller)+" "+strconv.Itoa(n))
			}
		})
	}
	callers.Wait()
	stop()
	watcher.Wait()
	t.Logf("seen to read: callers %d times, a goroutine %d times", direct.Load(), apart.Load())
	if direct.Load() == 0 || apart.Load() == 0 {
		t.Error("the test did not test")
	}
}

func oneCall(t *testing.T, c *Conn, body string) {
	ctx := context.Background()
	cancel := context.CancelFunc(func() {})
	switch rand.IntN(20) {
	case 0:
		ctx, cancel = context.WithTimeout(ctx, time.Duration(rand.IntN(60_000))*time.Microsecond)
	case 1:
		ctx, cancel = context.WithCancel(ctx)
		time.AfterFunc(time.Duration(rand.IntN(60_000))*time.Microsecond, cancel)
	}
	defer cancel()
	got, err := call(ctx, c, body)
	end, _ := ctx.Deadline()
	switch {
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return
	case errors.Is(err, context.DeadlineExceeded) && !end.IsZero() && !time.Now().Before(end):
		return
	}
	if err != nil || got != body {
		t.Errorf("%q got %q, %v", body, got, err)
	}
}
