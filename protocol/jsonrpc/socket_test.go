package jsonrpc_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/server"
)

// socket is the client's side of a WebSocket.
type socket struct {
	t *testing.T
	*websocket.Conn
}

func dialSocket(t *testing.T, address string, header ...string) socket {
	t.Helper()
	h := http.Header{}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	c, response, err := websocket.Dial(t.Context(), "ws://"+address+"/jsonrpc", &websocket.DialOptions{HTTPHeader: h})
	if err != nil {
		t.Fatal(err)
	}
	if response.Body != nil {
		response.Body.Close()
	}
	t.Cleanup(func() { _ = c.CloseNow() })
	return socket{t, c}
}

func (s socket) send(text string) {
	s.t.Helper()
	if err := s.Write(s.t.Context(), websocket.MessageText, []byte(text)); err != nil {
		s.t.Fatal(err)
	}
}

func (s socket) receive() string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	kind, text, err := s.Read(ctx)
	if err != nil || kind != websocket.MessageText {
		s.t.Fatal(kind, err)
	}
	return string(text)
}

func TestSpecificationOverWebSocket(t *testing.T) {
	s := dialSocket(t, specification(t))
	for _, e := range examples {
		s.send(e.request)
		if e.answer != "" {
			if got, want := canonical(t, s.receive()), canonical(t, e.answer); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %v, want %v", e.name, got, want)
			}
		}
		s.send(`{"jsonrpc":"2.0","method":"sum","params":[2,3],"id":"next"}`)
		if got := s.receive(); got != `{"jsonrpc":"2.0","result":5,"id":"next"}` {
			t.Errorf("after %s: %s", e.name, got)
		}
	}
	if err := s.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Error(err)
	}
}

func TestWebSocket(t *testing.T) {
	srv, address := serve(t, server.WithMaxMessage(100<<10))
	register(t, srv, "size", func(s string) int { return len(s) })
	register(t, srv, "user", func(ctx context.Context) string {
		call := tandem.FromContext(ctx)
		return call.Metadata.Get("x-user") + " by " + call.Peer.Protocol
	})
	s := dialSocket(t, address, "X-User", "me", "Origin", "http://pages.example")
	for _, c := range []struct{ message, want string }{
		{`{"method":"size","params":["x"],"id":1}`, `{"result":1,"error":null,"id":1}`},
		{`{"jsonrpc":"2.0","method":"user","id":1}`, `{"jsonrpc":"2.0","result":"me by jsonrpc","id":1}`},
		{`{"jsonrpc":"2.0","method":"size","params":["` + strings.Repeat("x", 90_000) + `"],"id":1}`, `{"jsonrpc":"2.0","result":90000,"id":1}`},
		{`{"jsonrpc":"2.0","method":"size","params":["` + strings.Repeat("x", 1_000_000) + `"],"id":1}`, `at most 102400 bytes`},
		{``, `"code":-32700`},
		{`{} {}`, `behind it comes`},
	} {
		s.send(c.message)
		if got := s.receive(); !strings.Contains(got, c.want) {
			t.Errorf("%.100s: %s, want %s", c.message, got, c.want)
		}
	}
	if err := s.Write(t.Context(), websocket.MessageBinary, []byte(`{"jsonrpc":"2.0","method":"size","params":["x"],"id":1}`)); err != nil {
		t.Fatal(err)
	}
	if got := s.receive(); got != `{"jsonrpc":"2.0","result":1,"id":1}` {
		t.Errorf("binary: %s", got)
	}
}

// A page of another host needs WithOrigins.
func TestWebSocketOrigin(t *testing.T) {
	_, address := serve(t)
	c, response, err := websocket.Dial(t.Context(), "ws://"+address+"/jsonrpc", &websocket.DialOptions{
		HTTPHeader: http.Header{"Origin": {"http://evil.example"}},
	})
	if err == nil {
		_ = c.CloseNow()
		t.Fatal("another host's page is let in")
	}
	if response == nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusForbidden {
		t.Error(err)
	}
}

// Calls run concurrently, and end when their client is gone.
func TestWebSocketCallsEnd(t *testing.T) {
	srv, address := serve(t)
	begun, ended := make(chan struct{}, 10), make(chan error, 10)
	register(t, srv, "wait", func(ctx context.Context) error {
		begun <- struct{}{}
		<-ctx.Done()
		ended <- ctx.Err()
		return ctx.Err()
	})
	s := dialSocket(t, address)
	for i := range 3 {
		s.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"wait","id":%d}`, i))
	}
	for range 3 {
		<-begun
	}
	_ = s.CloseNow()
	for range 3 {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	s = dialSocket(t, address, "Connect-Timeout-Ms", "1")
	s.send(`{"jsonrpc":"2.0","method":"wait","id":1}`)
	if got := s.receive(); !strings.Contains(got, `"code":-32004`) {
		t.Errorf("a call that takes too long: %s", got)
	}
}

// A server that drains answers running calls, and then sends the status for going away.
func TestWebSocketDrains(t *testing.T) {
	srv, address := serve(t)
	begun, free := make(chan struct{}), make(chan struct{})
	register(t, srv, "wait", func() string { close(begun); <-free; return "done" })
	s := dialSocket(t, address)
	s.send(`{"jsonrpc":"2.0","method":"wait","id":1}`)
	<-begun
	shut := make(chan error, 1)
	go func() { shut <- srv.Shutdown(t.Context()) }()
	for { // until the server refuses it
		s.send(`{"jsonrpc":"2.0","method":"wait2","id":2}`)
		if got := s.receive(); strings.Contains(got, "-32014") {
			break
		}
	}
	close(free)
	if got := s.receive(); got != `{"jsonrpc":"2.0","result":"done","id":1}` {
		t.Error(got)
	}
	_, _, err := s.Read(t.Context())
	if websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Error(err)
	}
	if err := <-shut; err != nil {
		t.Error(err)
	}
}

// upgrade opens a WebSocket by hand.
func upgrade(t *testing.T, c net.Conn) *bufio.Reader {
	t.Helper()
	fmt.Fprint(c, "GET /jsonrpc HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	r := bufio.NewReader(c)
	answer, err := http.ReadResponse(r, nil)
	if err != nil || answer.StatusCode != http.StatusSwitchingProtocols || answer.Header.Get("Sec-WebSocket-Accept") != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" {
		t.Fatal(answer, err)
	}
	answer.Body.Close()
	return r
}

// A client that does not answer pings is disconnected, and so is one that stops in the
// middle of a message; one that is only silent is not.
func TestWebSocketSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, network := bubble(t, server.WithStallTimeout(3*time.Second))
		var all sync.WaitGroup
		defer all.Wait()
		for name, c := range map[string]struct {
			sends string
			after time.Duration
		}{
			"no pong": {"", 33 * time.Second},
			"stalled": {"\x01\xff\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00{", 3 * time.Second}, // 64 KiB are expected
		} {
			conn, err := network.Dial(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			begin, r := time.Now(), upgrade(t, conn)
			all.Go(func() {
				defer conn.Close()
				fmt.Fprint(conn, c.sends)
				_, _ = io.Copy(io.Discard, r)
				if took := time.Since(begin); took.Round(time.Second) != c.after {
					t.Errorf("%s: closed after %v", name, took)
				}
			})
		}
		ws, response, err := websocket.Dial(t.Context(), "ws://a/jsonrpc", &websocket.DialOptions{HTTPClient: &http.Client{
			Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return network.Dial(ctx, "a") }},
		}})
		if err != nil {
			t.Fatal(err)
		}
		if response.Body != nil {
			response.Body.Close()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour+7*time.Second) // not while a ping is answered
		defer cancel()
		if _, _, err := ws.Read(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a client that answers pings: %v", err)
		}
	})
}

// A client that does not answer the closing of its WebSocket does not delay Shutdown, and
// neither does one whose message does not arrive.
func TestSilentSocketDoesNotDelayShutdown(t *testing.T) {
	for _, sent := range []string{"", "\x01", "\x01\xff\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00{"} {
		synctest.Test(t, func(t *testing.T) {
			srv, network := bubble(t)
			conn, err := network.Dial(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			r := upgrade(t, conn)
			fmt.Fprint(conn, sent)
			go func() { _, _ = io.Copy(io.Discard, r) }()
			synctest.Wait()
			began := time.Now()
			if err := srv.Shutdown(t.Context()); err != nil || time.Since(began) > 3*time.Second {
				t.Errorf("after %q Shutdown took %v: %v", sent, time.Since(began), err)
			}
		})
	}
}

// A POST that is refused, or whose body does not arrive, ends within the stall timeout.
func TestUnfinishedPost(t *testing.T) {
	const start, length = "POST /jsonrpc HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n", "Content-Length: 9\r\n\r\n"
	for request, c := range map[string]struct {
		answer string
		after  time.Duration
	}{
		start + length: {"HTTP/1.1 400 ", 3 * time.Second},
		start + "Content-Length: 1000000000\r\n\r\n":                                    {"HTTP/1.1 200 ", 0},
		start + "Transfer-Encoding: chunked\r\n\r\nz\r\n":                               {"HTTP/1.1 400 ", 0},
		start + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n":      {"HTTP/1.1 400 ", 0},
		strings.Replace(start, "json\r", "xml\r", 1) + length:                           {"HTTP/1.1 415 ", 0},
		strings.Replace(start, "POST", "PUT", 1) + "Transfer-Encoding: chunked\r\n\r\n": {"HTTP/1.1 405 ", 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			_, network := bubble(t, server.WithStallTimeout(3*time.Second))
			conn, err := network.Dial(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			began := time.Now()
			fmt.Fprint(conn, request)
			r := bufio.NewReader(conn)
			line, err := r.ReadString('\n')
			if took := time.Since(began); err != nil || !strings.HasPrefix(line, c.answer) || took != c.after {
				t.Errorf("%.90q: %q after %v, %v", request, line, took, err)
			}
			_, _ = io.Copy(io.Discard, r)
			if took := time.Since(began); took > c.after+time.Second {
				t.Errorf("%.90q: closed after %v", request, took)
			}
		})
	}
}
