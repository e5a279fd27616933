package web_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// A response tells HTTP/1.1 clients that the connection ends: the response to a call that
// was running, and the next one on a connection that was idle.
func TestDrainSaysConnectionClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWebTest(t, web.New())
		finish := make(chan bool)
		w.must(w.srv.RegisterFunc("Text.Wait", func(string) string {
			<-finish
			return "done"
		}))
		w.must(w.srv.RegisterFunc("Text.Upper", strings.ToUpper))
		idle := w.client((*http.Protocols).SetHTTP1)
		if a := w.do(idle, "POST /Text/Upper", asJSON, `"before"`); a.Close {
			t.Error("the connection ends before the server does")
		}
		running := make(chan answer, 1)
		go func() { running <- w.do(w.h1, "POST /Text/Wait", asJSON, `""`) }()
		synctest.Wait()
		shut := make(chan error, 1)
		go func() { shut <- w.srv.Shutdown(t.Context()) }()
		synctest.Wait()
		if a := w.do(idle, "POST /Text/Upper", asJSON, `"late"`); a.Body != `"LATE"` || !a.Close {
			t.Errorf("on an idle connection: %+v", a)
		}
		finish <- true
		if a := <-running; a.Body != `"done"` || !a.Close {
			t.Errorf("a call that was running: %+v", a)
		}
		w.must(<-shut)
	})
}

// HTTP/2 clients get a GOAWAY that names the last call that will be answered.
func TestDrainSaysGoAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWebTest(t, web.New())
		finish := make(chan bool)
		w.must(w.srv.RegisterFunc("Text.Wait", func(string) string {
			<-finish
			return "done"
		}))
		got := &frames{}
		tr := &http.Transport{Protocols: new(http.Protocols), DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			c, err := w.net.Dial(ctx, "a")
			return &listening{c, got}, err
		}}
		tr.Protocols.SetUnencryptedHTTP2(true)
		defer tr.CloseIdleConnections()
		running := make(chan answer, 1)
		go func() { running <- w.do(&http.Client{Transport: tr}, "POST /Text/Wait", asJSON, `""`) }()
		synctest.Wait()
		if got := got.goAways(); got != nil {
			t.Errorf("GOAWAY %v before the server drains", got)
		}
		shut := make(chan error, 1)
		go func() { shut <- w.srv.Shutdown(t.Context()) }()
		synctest.Wait()
		want := []goAway{{last: 1}}
		if !*netHTTP2 { // which takes the requests that are on their way, and then says which those were
			want = []goAway{{last: 1<<31 - 1}, {last: 1}}
			time.Sleep(time.Second) // virtual
		}
		if got := got.goAways(); !slices.Equal(got, want) {
			t.Errorf("GOAWAY %+v, want %+v", got, want)
		}
		finish <- true
		if a := <-running; a.Body != `"done"` {
			t.Errorf("%+v", a)
		}
		w.must(<-shut)
	})
}

// lateProtocol is a protocol that begins to serve after wait has returned.
type lateProtocol struct {
	server.Protocol

	wait func(context.Context, *server.Conn)
}

func (p lateProtocol) Serve(ctx context.Context, c *server.Conn) error {
	p.wait(ctx, c)
	return p.Protocol.Serve(ctx, c)
}

// A connection that begins to be served while the server drains gets the response to its
// request. Over HTTP/2 the server may say instead that it did not process the request, so
// that the client tries another server.
func TestDrainBeforeServing(t *testing.T) {
	for _, version := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(version, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWebTest(t, lateProtocol{web.New(), func(_ context.Context, c *server.Conn) {
					<-c.Draining()
					time.Sleep(time.Millisecond) // the connection drains after the server
				}})
				w.must(w.srv.RegisterFunc("Text.Upper", strings.ToUpper))
				c := w.h1
				if version == "HTTP/2.0" {
					c = w.h2
				}
				answered := make(chan error, 1)
				go func() { answered <- callText(t.Context(), c) }()
				synctest.Wait()
				start := time.Now()
				if err := w.srv.Shutdown(t.Context()); err != nil || time.Since(start) > patience/2 {
					t.Errorf("Shutdown: %v after %v", err, time.Since(start))
				}
				if err := <-answered; err != nil && (c == w.h1 || !strings.Contains(err.Error(), "connection refused")) {
					t.Error(err)
				}
			})
		})
	}
}

// A connection that begins to be served after the time to drain is over is ended.
func TestDrainOverBeforeServing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWebTest(t, web.New())
		_, end := transport.Pipe(&net.TCPAddr{}, &net.TCPAddr{})
		late := lateProtocol{web.New(), func(ctx context.Context, _ *server.Conn) { <-ctx.Done() }}
		served := make(chan error, 1)
		go func() { served <- w.srv.ServeProtocol(slowDeadlineConn{end}, late) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := w.srv.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, server.ErrHandlersRunning) {
			t.Errorf("Shutdown: %v", err)
		}
		w.must(<-served)
	})
}

// slowDeadlineConn is a connection that delays setting a future read deadline, so that concurrent
// work is done first.
type slowDeadlineConn struct{ net.Conn }

func (h slowDeadlineConn) SetReadDeadline(t time.Time) error {
	if t.After(time.Now()) {
		time.Sleep(time.Millisecond)
	}
	return h.Conn.SetReadDeadline(t)
}

// goAway is the content of a GOAWAY frame (RFC 9113, section 6.8).
type goAway struct{ last, code uint32 }

// frames collects the GOAWAY frames of an HTTP/2 connection.
type frames struct {
	mu   sync.Mutex
	rest []byte
	said []goAway
}

func (f *frames) add(b []byte) {
	const head, typeGoAway = 9, 7
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rest = append(f.rest, b...)
	for len(f.rest) >= head {
		end := head + int(binary.BigEndian.Uint32(f.rest)>>8)
		if len(f.rest) < end {
			return
		}
		if payload := f.rest[head:end]; f.rest[3] == typeGoAway {
			f.said = append(f.said, goAway{binary.BigEndian.Uint32(payload), binary.BigEndian.Uint32(payload[4:])})
		}
		f.rest = f.rest[end:]
	}
}

func (f *frames) goAways() []goAway {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.said)
}

// listening is a connection that passes what it reads to frames.
type listening struct {
	net.Conn

	to *frames
}

func (l *listening) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	l.to.add(p[:n])
	return n, err
}

// lateListener is a listener whose connections are accepted only once it is told to stop.
type lateListener struct {
	net.Listener

	stopping chan struct{}
	once     sync.Once
}

func (d *lateListener) Accept() (net.Conn, error) {
	<-d.stopping
	return d.Listener.Accept()
}

func (d *lateListener) SetDeadline(t time.Time) error {
	defer d.once.Do(func() { close(d.stopping) })
	return d.Listener.(*net.TCPListener).SetDeadline(t)
}

func (d *lateListener) Close() error {
	defer d.once.Do(func() { close(d.stopping) })
	return d.Listener.Close()
}

// acceptances is a plugin that reports accepted connections.
type acceptances chan struct{}

func (a acceptances) ConnAccepted(c net.Conn) (net.Conn, error) {
	a <- struct{}{}
	return c, nil
}

// A server that drains answers requests on connections that were made before: on those that
// it has not accepted yet, and on those that have not sent enough to detect the protocol.
func TestDrainServesEarlierConnections(t *testing.T) {
	const request = "POST /Text/Upper HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 6\r\n\r\n" + `"loud"`
	for name, c := range map[string]struct {
		before int // bytes that are sent before the server drains
		late   bool
	}{"not accepted": {len(request), true}, "nothing said": {0, false}, "half a word": {2, false}} {
		t.Run(name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			if c.late {
				ln = &lateListener{Listener: ln, stopping: make(chan struct{})}
			}
			accepted := make(acceptances, 1)
			srv := serveTextOn(t, ln, new(atomic.Int64), server.WithPlugins(accepted))
			conn, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_, err = io.WriteString(conn, request[:c.before])
			if !c.late {
				<-accepted
			}
			shut := make(chan error, 1)
			go func() { shut <- srv.Shutdown(t.Context()) }()
			time.Sleep(50 * time.Millisecond) // real time: the server waits for nothing else
			_, failed := io.WriteString(conn, request[c.before:])
			if err = errors.Join(err, failed, conn.SetReadDeadline(time.Now().Add(patience))); err != nil {
				t.Fatal(err)
			}
			a, err := io.ReadAll(conn)
			if err != nil || !strings.HasSuffix(string(a), `"LOUD"`) || !strings.Contains(string(a), "\r\nConnection: close\r\n") {
				t.Errorf("got %q, %v", a, err)
			}
			if err := <-shut; err != nil {
				t.Error(err)
			}
		})
	}
}

// No call is lost when a server drains under load: running calls are answered, and
// net/http's client makes the others on a new connection.
func TestNoCallIsLostInADrain(t *testing.T) {
	for version, speaks := range map[string]func(*http.Protocols, bool){
		"HTTP/1.1": (*http.Protocols).SetHTTP1, "HTTP/2": (*http.Protocols).SetUnencryptedHTTP2,
	} {
		t.Run(version, func(t *testing.T) { testDrainUnderLoad(t, speaks) })
	}
}

func testDrainUnderLoad(t *testing.T, speaks func(*http.Protocols, bool)) {
	const callers, before, after = 8, 200, 200
	var served [2]atomic.Int64
	old, oldAddress := serveText(t, &served[0])
	_, newAddress := serveText(t, &served[1])
	tr := &http.Transport{
		Protocols: new(http.Protocols), MaxIdleConnsPerHost: callers,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, oldAddress)
			if err != nil { // the server accepts no more connections
				c, err = new(net.Dialer).DialContext(ctx, network, newAddress)
			}
			return c, err
		},
	}
	speaks(tr.Protocols, true)
	defer tr.CloseIdleConnections()
	c := &http.Client{Transport: tr, Timeout: patience}
	var made sync.WaitGroup
	var lost atomic.Int64
	for range callers {
		made.Go(func() {
			for served[1].Load() < after {
				if err := callText(t.Context(), c); err != nil {
					lost.Add(1)
					t.Error(err)
					return
				}
			}
		})
	}
	for served[0].Load() < before {
		if err := callText(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if err := old.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	made.Wait()
	if served[0].Load() < before || served[1].Load() < after {
		t.Errorf("served %d and %d calls, lost %d", served[0].Load(), served[1].Load(), lost.Load())
	}
}

func serveText(t *testing.T, served *atomic.Int64) (srv *server.Server, address string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveTextOn(t, ln, served), ln.Addr().String()
}

func serveTextOn(t *testing.T, ln net.Listener, served *atomic.Int64, opts ...server.Option) *server.Server {
	t.Helper()
	srv := server.New(append(opts, server.WithProtocols(web.New()), server.WithLogger(slog.New(slog.DiscardHandler)))...)
	err := srv.RegisterFunc("Text.Upper", func(s string) string {
		served.Add(1)
		return strings.ToUpper(s)
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.ServeListener(ln) }()
	t.Cleanup(func() {
		_ = srv.Close()
		<-ended
	})
	return srv
}

// callText makes a call that must not be made twice.
func callText(ctx context.Context, c *http.Client) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/Text/Upper", strings.NewReader(`"loud"`))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", asJSON)
	a, err := c.Do(r)
	if err != nil {
		return err
	}
	b, err := io.ReadAll(a.Body)
	if err = errors.Join(err, a.Body.Close()); err == nil && string(b) != `"LOUD"` {
		err = errors.New(a.Status + " " + string(b))
	}
	return err
}
