package websocket_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	ws "github.com/coder/websocket"
	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
	"github.com/tandem-rpc/tandem/transport/transporttest"
	"github.com/tandem-rpc/tandem/transport/websocket"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func loopback() string { return "127.0.0.1:0" }

func TestBehaviour(t *testing.T) {
	transporttest.Run(t, func(testing.TB) transporttest.Harness {
		return transporttest.Harness{
			Server: websocket.New(transport.TCP(), websocket.WithPath("rpc")), Client: websocket.New(transport.TCP()),
			Name: "ws", Address: loopback, NoHalfClose: true,
		}
	})
}

func TestBehaviourOverTLS(t *testing.T) {
	transporttest.Run(t, func(t testing.TB) transporttest.Harness {
		serverTLS, clientTLS := transporttest.Certificates(t)
		return transporttest.Harness{
			Server: websocket.New(transport.TLS(transport.TCP(), serverTLS)),
			Client: websocket.New(transport.TLS(transport.TCP(), clientTLS)),
			Name:   "wss", Address: loopback, NoHalfClose: true, TLS: true,
		}
	})
}

// mounted listens by mounting a handler on an HTTP server of its own.
type mounted struct{ tandem.Transport }

func (mounted) Listen(ctx context.Context, address string) (net.Listener, error) {
	host, _, _ := strings.Cut(address, "/")
	ln, err := transport.TCP().Listen(ctx, host)
	if err != nil {
		return nil, err
	}
	h := websocket.NewHandler()
	mux := http.NewServeMux()
	mux.Handle("/rpc", h)
	mux.HandleFunc("/page", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "a page") })
	s := &mountedServer{Handler: h, ln: ln, http: http.Server{Handler: mux, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}}
	go func() { _ = s.http.Serve(ln) }()
	return s, nil
}

type mountedServer struct {
	*websocket.Handler
	ln   net.Listener
	http http.Server
}

func (s *mountedServer) Close() error   { return errors.Join(s.Handler.Close(), s.http.Close()) }
func (s *mountedServer) Addr() net.Addr { return at{s.ln.Addr()} }

type at struct{ net.Addr }

func (a at) String() string { return a.Addr.String() + "/rpc" }

func TestBehaviourMounted(t *testing.T) {
	transporttest.Run(t, func(testing.TB) transporttest.Harness {
		return transporttest.Harness{
			Server: mounted{websocket.New(transport.TCP())}, Name: "ws", Address: loopback, NoHalfClose: true,
		}
	})
}

// serve starts a server with an echo, and returns host:port/path.
func serve(t *testing.T, opts ...websocket.Option) string {
	t.Helper()
	ln, err := websocket.New(transport.TCP(), opts...).Listen(t.Context(), loopback())
	if err != nil {
		t.Fatal(err)
	}
	srv := server.New(server.WithLogger(slog.New(slog.DiscardHandler)))
	if err := server.Handle(srv, "Test.Echo", func(_ context.Context, in *string) (*string, error) { return in, nil }); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- srv.ServeListener(ln) }()
	t.Cleanup(func() {
		srv.Close()
		if err := <-done; !errors.Is(err, server.ErrServerClosed) {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

// A page may connect to its own host, and to others that allow it.
func TestOrigins(t *testing.T) {
	for name, c := range map[string]struct {
		allowed []string
		origin  string // %h is the server's own host
		taken   bool
	}{
		"no browser":               {nil, "", true},
		"the same host":            {nil, "http://%h", true},
		"another host":             {nil, "http://evil.example", false},
		"another port":             {nil, "http://127.0.0.1:1", false},
		"an opaque origin":         {nil, "null", false},
		"an allowed host":          {[]string{"app.example"}, "https://app.example", true},
		"a host below":             {[]string{"*.app.example"}, "https://a.app.example", true},
		"a host that ends alike":   {[]string{"*.app.example"}, "https://evilapp.example", false},
		"a host that begins alike": {[]string{"app.example"}, "https://app.example.evil.example", false},
		"another scheme":           {[]string{"https://app.example"}, "http://app.example", false},
	} {
		t.Run(name, func(t *testing.T) {
			address := serve(t, websocket.WithOrigins(c.allowed...))
			header := http.Header{}
			if c.origin != "" {
				host, _, _ := strings.Cut(address, "/")
				header.Set("Origin", strings.ReplaceAll(c.origin, "%h", host))
			}
			conn, resp, err := ws.Dial(t.Context(), "ws://"+address, &ws.DialOptions{ //nolint:bodyclose // needless, says Dial
				HTTPHeader: header, Subprotocols: []string{websocket.Subprotocol},
			})
			if err == nil {
				defer conn.CloseNow()
			}
			if (err == nil) != c.taken || !c.taken && resp.StatusCode != http.StatusForbidden {
				t.Errorf("taken: %t, want %t: %v", err == nil, c.taken, err)
			}
		})
	}
}

// A client that requests no subprotocol, or another one, or sends text, gets a close frame with
// the reason.
func TestRefusedClientsGetTheReason(t *testing.T) {
	address := serve(t, websocket.WithPath("/rpc"))
	for name, c := range map[string]struct {
		protocols []string
		kind      ws.MessageType
		want      ws.StatusCode
	}{
		"no subprotocol":      {nil, ws.MessageBinary, ws.StatusPolicyViolation},
		"another subprotocol": {[]string{"chat"}, ws.MessageBinary, ws.StatusPolicyViolation},
		"text":                {[]string{websocket.Subprotocol}, ws.MessageText, ws.StatusUnsupportedData},
	} {
		t.Run(name, func(t *testing.T) {
			conn, _, err := ws.Dial(t.Context(), "ws://"+address, &ws.DialOptions{Subprotocols: c.protocols}) //nolint:bodyclose // needless, says Dial
			if err != nil {
				t.Fatal(err)
			}
			defer conn.CloseNow()
			_ = conn.Write(t.Context(), c.kind, []byte("hello")) // it may be closed by then
			if _, _, err := conn.Read(t.Context()); ws.CloseStatus(err) != c.want {
				t.Errorf("closed with %v, want %v", err, c.want)
			}
		})
	}
	for _, target := range []string{"http://" + address, "http://" + strings.TrimSuffix(address, "/rpc")} {
		resp, err := http.Get(target)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode < 400 {
			t.Errorf("GET %s: %s", target, resp.Status)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// The deadline of a write that has ended does not apply to the answer to a ping.
func TestPingAfterWriteDeadline(t *testing.T) {
	d := 50 * time.Millisecond
	for !pingAfterDeadline(t, d) { // on a busy machine the first write may be too late
		d *= 2
	}
}

// pingAfterDeadline returns false if a write has not ended within d.
func pingAfterDeadline(t *testing.T, d time.Duration) bool {
	t.Helper()
	ln, err := websocket.New(transport.TCP()).Listen(t.Context(), loopback())
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		c, _ := ln.Accept() // the dial fails too
		accepted <- c
	}()
	conn, _, err := ws.Dial(t.Context(), "ws://"+ln.Addr().String(), &ws.DialOptions{Subprotocols: []string{websocket.Subprotocol}}) //nolint:bodyclose // needless, says Dial
	if err != nil {
		t.Fatal(err)
	}
	c := <-accepted
	defer c.Close()
	defer conn.CloseNow()
	by := time.Now().Add(d)
	if err := c.SetWriteDeadline(by); err != nil {
		t.Fatal(err)
	}
	switch _, err := c.Write([]byte("hello")); {
	case isTimeout(err) && d < 10*time.Second:
		return false
	case err != nil:
		t.Fatal(err)
	}
	<-time.After(time.Until(by) + 50*time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, p, err := conn.Read(ctx); string(p) != "hello" || err != nil {
		t.Fatalf("%q, %v", p, err)
	}
	conn.CloseRead(ctx) // so that it reads the answer
	if err := conn.Ping(ctx); err != nil {
		t.Error(err)
	}
	if _, err := c.Write([]byte("x")); !isTimeout(err) {
		t.Errorf("a write past its deadline: %v", err)
	}
	return true
}

// Dial fails with the reason for a server without WebSockets, with another path, or with a
// redirect.
func TestDialSaysWhatIsWrong(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/moved" {
			http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
			return
		}
		c, err := ws.Accept(w, r, nil) // without a subprotocol
		if err == nil {
			c.CloseNow()
		}
	}))
	defer web.Close()
	host := strings.TrimPrefix(web.URL, "http://")
	for address, want := range map[string]string{
		host + "/moved":                "302",
		host + "/other":                `does not speak the subprotocol "tandem"`,
		serve(t) + "/nowhere":          "404",
		strings.TrimSuffix(host, "\n"): "subprotocol",
		"127.0.0.1:0":                  "127.0.0.1:0",
	} {
		c, err := websocket.New(transport.TCP()).Dial(t.Context(), address)
		if err == nil {
			c.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q in it", address, err, want)
		}
	}
}

// Connections that do not become WebSockets are closed in time, and their number is bounded.
func TestPendingIsBounded(t *testing.T) {
	address := serve(t, websocket.WithPending(3, 300*time.Millisecond))
	var conns []net.Conn
	for range 5 {
		c, err := transport.TCP().Dial(t.Context(), address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		conns = append(conns, c)
	}
	for _, c := range conns {
		if err := c.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(c); errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
			t.Error("a silent connection is still open")
		}
	}
	c, err := client.Dial("ws://"+address, client.WithTransport("ws", websocket.New(transport.TCP())))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, err := client.Invoke[string](t.Context(), c, "Test.Echo", new("x")); err != nil || *got != "x" {
		t.Error(err)
	}
}

// Silent connections make room for a client.
func TestSilentConnectionsMakeRoom(t *testing.T) {
	address := serve(t, websocket.WithPending(3, time.Minute))
	for range 3 {
		c, err := transport.TCP().Dial(t.Context(), address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	c, err := client.Dial("ws://"+address, client.WithTransport("ws", websocket.New(transport.TCP())))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, err := client.Invoke[string](t.Context(), c, "Test.Echo", new("x"), client.Timeout(20*time.Second)); err != nil || *got != "x" {
		t.Error(err)
	}
}

// endpoints returns the endpoints of the first instance that a memory registry lists.
func endpoints(t *testing.T, list *registry.Memory) (found []tandem.Endpoint) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_ = list.Watch(ctx, registry.Target{}, func(s registry.Snapshot) {
		if len(s.Instances) > 0 {
			found = s.Instances[0].Endpoints
			cancel()
		}
	})
	if len(found) == 0 {
		t.Fatal("nothing is listed")
	}
	return found
}

// A server is listed where it can be reached: one on all interfaces under the host's name, a
// mounted handler only where the instance names its endpoints.
func TestListedAddresses(t *testing.T) {
	all, nowhere, named := registry.NewMemory(), registry.NewMemory(), registry.NewMemory()
	at := tandem.Endpoint{Transport: "ws", Address: "example.org/rpc"}
	listens := server.New(server.WithTransport("ws", websocket.New(transport.TCP())), server.WithRegistrar(all, tandem.Instance{}))
	mounts := server.New(server.WithRegistrar(nowhere, tandem.Instance{}), // it would be listed first
		server.WithRegistrar(named, tandem.Instance{Endpoints: []tandem.Endpoint{at}}))
	done := make(chan error, 2)
	go func() { done <- listens.Serve("ws", ":0/rpc") }()
	go func() { done <- mounts.ServeListener(websocket.NewHandler()) }()
	if got := endpoints(t, all)[0].Address; strings.HasPrefix(got, "[::]") || strings.HasPrefix(got, "0.0.0.0") || !strings.HasSuffix(got, "/rpc") {
		t.Errorf("on all interfaces it is listed at %s", got)
	}
	if got := endpoints(t, named); got[0] != at {
		t.Errorf("it is listed at %v", got)
	}
	listens.Close()
	mounts.Close()
	for range 2 {
		if err := <-done; !errors.Is(err, server.ErrServerClosed) {
			t.Error(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	_ = nowhere.Watch(ctx, registry.Target{}, func(s registry.Snapshot) {
		cancel()
		if s.Revision > 0 {
			t.Errorf("a handler that is mounted somewhere was listed: %+v", s)
		}
	})
}

func isTimeout(err error) bool {
	n, ok := errors.AsType[net.Error](err)
	return ok && n.Timeout()
}
