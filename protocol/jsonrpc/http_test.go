package jsonrpc_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/protocol/jsonrpc"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// poster posts messages.
type poster struct {
	t      *testing.T
	url    string
	client *http.Client
}

// posters are clients of HTTP/1.1 and HTTP/2.
func posters(t *testing.T, address string) map[string]poster {
	t.Helper()
	all := map[string]poster{}
	for name, speaks := range map[string]func(*http.Protocols, bool){
		"HTTP/1.1": (*http.Protocols).SetHTTP1, "HTTP/2": (*http.Protocols).SetUnencryptedHTTP2,
	} {
		transport := &http.Transport{Protocols: new(http.Protocols)}
		speaks(transport.Protocols, true)
		t.Cleanup(transport.CloseIdleConnections)
		all[name] = poster{t, "http://" + address + "/jsonrpc", &http.Client{Transport: transport, Timeout: time.Minute}}
	}
	return all
}

// post returns the status and the body of the response. header has pairs of a name and a
// value.
func (p poster) post(message string, header ...string) (int, string) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, p.url, strings.NewReader(message))
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := p.client.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

func TestSpecificationOverHTTP(t *testing.T) {
	for name, p := range posters(t, specification(t)) {
		for _, e := range examples {
			status, got := p.post(e.request)
			switch {
			case e.answer == "":
				if status != http.StatusNoContent || got != "" {
					t.Errorf("%s, %s: %d %q", name, e.name, status, got)
				}
			case status != http.StatusOK || !reflect.DeepEqual(canonical(t, got), canonical(t, e.answer)):
				t.Errorf("%s, %s: %d %s, want %s", name, e.name, status, got, e.answer)
			}
		}
	}
}

func TestHTTP(t *testing.T) {
	srv, address := serve(t, server.WithMaxMessage(1000))
	register(t, srv, "echo", func(s string) string { return s })
	register(t, srv, "fails", func() error { return tandem.Errorf(tandem.PermissionDenied, "not you") })
	p := posters(t, address)["HTTP/1.1"]
	echo := `{"jsonrpc":"2.0","method":"echo","params":["x"],"id":1}`
	for _, c := range []struct {
		name, message string
		header        []string
		status        int
		want          string
	}{
		{"space", " \n" + echo + "\r\n", nil, 200, `{"jsonrpc":"2.0","result":"x","id":1}`},
		{"version 1.0", `{"method":"echo","params":["x"],"id":1}`, nil, 200, `{"result":"x","error":null,"id":1}`},
		{"notification of 1.0", `{"method":"echo","params":["x"],"id":null}`, nil, 204, ``},
		{"an error", `{"jsonrpc":"2.0","method":"fails","id":1}`, nil, 200, `{"jsonrpc":"2.0","error":{"code":-32007,"message":"not you","data":"permission denied"},"id":1}`},
		{"two messages", echo + echo, nil, 200, `behind it comes`},
		{"half a message", echo[:20], nil, 200, `"code":-32700`},
		{"nothing", ``, nil, 200, `"code":-32700`},
		{"too deep", strings.Repeat("[", 65), nil, 200, `nested deeper`},
		{"too large", `{"jsonrpc":"2.0","method":"echo","params":["` + strings.Repeat("x", 1000) + `"],"id":1}`, nil, 200, `"code":-32008,"message":"a message has at most 1000 bytes: see the server's WithMaxMessage","data":"resource exhausted"`},
		{"charset", echo, []string{"Content-Type", "application/json; charset=UTF-8"}, 200, `"result":"x"`},
		{"application/json-rpc", echo, []string{"Content-Type", "application/json-rpc"}, 200, `"result":"x"`},
		{"what any page may send", echo, []string{"Content-Type", "text/plain"}, 415, `application/json`},
		{"no type", echo, []string{"Content-Type", ""}, 415, `application/json`},
		{"compressed", echo, []string{"Content-Encoding", "gzip"}, 415, `no encoding`},
	} {
		if status, got := p.post(c.message, c.header...); status != c.status || !strings.Contains(got, c.want) {
			t.Errorf("%s: %d %s, want %d %s", c.name, status, got, c.status, c.want)
		}
	}
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodOptions} {
		r, err := http.NewRequestWithContext(t.Context(), method, p.url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := p.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusMethodNotAllowed || answer.Header.Get("Allow") != http.MethodPost {
			t.Errorf("%s: %s", method, answer.Status)
		}
	}
}

// Interceptors get the header as metadata, a copy for each call of a batch, and the
// caller's deadline.
func TestHTTPMetadata(t *testing.T) {
	type seen struct {
		user, protocol string
		due            bool
	}
	calls := make(chan seen, 10)
	srv, address := serve(t, server.WithInterceptors(func(next tandem.Func) tandem.Func {
		return func(ctx context.Context, call *tandem.Call) error {
			until := time.Until(call.Deadline)
			calls <- seen{call.Metadata.Get("x-user"), call.Peer.Protocol, !call.Deadline.IsZero() && until > 50*time.Minute && until <= time.Hour}
			call.Metadata.Set("x-user", "somebody else")
			return next(ctx, call)
		}
	}))
	register(t, srv, "echo", func(s string) string { return s })
	for name, p := range posters(t, address) {
		_, got := p.post(`[{"jsonrpc":"2.0","method":"echo","params":["x"],"id":1},{"jsonrpc":"2.0","method":"echo","params":["y"],"id":2}]`,
			"X-User", "me", "Connect-Timeout-Ms", "3600000")
		for range 2 {
			if s := <-calls; s != (seen{"me", "jsonrpc", true}) {
				t.Errorf("%s: %+v, answer %s", name, s, got)
			}
		}
	}
}

// A call ends when its caller is gone or its deadline has passed.
func TestHTTPCallsEnd(t *testing.T) {
	srv, address := serve(t)
	begun, ended := make(chan struct{}, 10), make(chan error, 10)
	register(t, srv, "wait", func(ctx context.Context) error {
		begun <- struct{}{}
		<-ctx.Done()
		ended <- ctx.Err()
		return ctx.Err()
	})
	message := `{"jsonrpc":"2.0","method":"wait","id":1}`
	for name, p := range posters(t, address) {
		if _, got := p.post(message, "Connect-Timeout-Ms", "1"); !strings.Contains(got, `"code":-32004`) {
			t.Errorf("%s: a call that takes too long: %s", name, got)
		}
		for len(begun) > 0 { // it may have begun
			<-begun
			<-ended
		}
		ctx, cancel := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, strings.NewReader(message))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			if answer, err := p.client.Do(r); err == nil {
				answer.Body.Close()
			}
		}()
		<-begun
		cancel()
		if err := <-ended; err == nil {
			t.Errorf("%s: it ends without an error", name)
		}
		<-gone
	}
}

// bubble runs a server on an in-memory network, in a synctest bubble.
func bubble(t *testing.T, opts ...server.Option) (*server.Server, *transport.Memory) {
	t.Helper()
	srv := server.New(append(opts, server.WithProtocols(jsonrpc.New(), web.New(web.WithHandler("/jsonrpc", jsonrpc.Handler(web.Conn, web.Metadata)))))...)
	network := transport.NewMemory()
	ln, err := network.Listen(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	t.Cleanup(func() {
		_ = srv.Close()
		<-served
	})
	return srv, network
}

// A body that stalls ends the request.
func TestBodyStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, network := bubble(t, server.WithStallTimeout(3*time.Second))
		c, err := network.Dial(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		begin := time.Now()
		fmt.Fprint(c, "POST /jsonrpc HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{")
		answer, err := io.ReadAll(c)
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 400 ") || time.Since(begin) != 3*time.Second {
			t.Errorf("after %v: %q, %v", time.Since(begin), answer, err)
		}
	})
}

// A response over HTTP/2 that the client does not receive is discarded after the stall
// timeout.
func TestAnswersAreNotHeld(t *testing.T) {
	for name, c := range map[string]struct {
		method, contentType, size string
		window                    int // bytes that the client accepts at first
		pause                     time.Duration
		reset                     bool
	}{
		"small":             {http.MethodPost, "application/json", "1", 10, 1100 * time.Millisecond, true},
		"small, soon":       {http.MethodPost, "application/json", "1", 10, 900 * time.Millisecond, false},
		"large":             {http.MethodPost, "application/json", "307200", 10 << 10, 2100 * time.Millisecond, true},
		"large, soon":       {http.MethodPost, "application/json", "307200", 10 << 10, 1900 * time.Millisecond, false},
		"no POST":           {http.MethodPut, "application/json", "1", 10, 1100 * time.Millisecond, true},
		"not as it must be": {http.MethodPost, "text/plain", "1", 10, 1100 * time.Millisecond, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv, network := bubble(t, server.WithStallTimeout(time.Second))
				register(t, srv, "long", func(n int) string { return strings.Repeat("x", n) })
				transport := &http.Transport{
					Protocols: new(http.Protocols), HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: c.window},
					DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return network.Dial(ctx, "a") },
				}
				transport.Protocols.SetUnencryptedHTTP2(true)
				defer transport.CloseIdleConnections()
				message := strings.NewReader(`{"jsonrpc":"2.0","method":"long","params":[` + c.size + `],"id":1}`)
				r, err := http.NewRequestWithContext(t.Context(), c.method, "http://tandem.test/jsonrpc", message)
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Content-Type", c.contentType)
				answer, err := transport.RoundTrip(r)
				if err != nil {
					t.Fatal(err)
				}
				defer answer.Body.Close()
				time.Sleep(c.pause)
				if body, err := io.ReadAll(answer.Body); (err != nil) != c.reset {
					t.Errorf("%d bytes, %v", len(body), err)
				}
			})
		})
	}
}

func TestHandlerWithoutServer(t *testing.T) {
	h := jsonrpc.Handler(web.Conn, web.Metadata)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	w := &recorder{header: http.Header{}}
	if h.ServeHTTP(w, r); w.status != http.StatusInternalServerError {
		t.Error(w.status)
	}
}

type recorder struct {
	header http.Header
	status int
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(p []byte) (int, error) { return len(p), nil }

// Posts on one HTTP/2 connection of which not all find memory at once do not keep each other's data
// from arriving: those for which there is room are answered, the others are refused at once.
func TestPostsThatWait(t *testing.T) {
	const size, memory = 128 << 10, 16 << 20
	// A connection has half of the memory, for 16 that hold up to four times their size, and a quarter
	// for what arrives of others, 28. The memory of one of unknown length is reserved in steps.
	fit, fitUndeclared := 44, 30
	for name, c := range map[string]struct {
		posts, memory int
		undeclared    bool
	}{
		"fit":                 {fit, memory, false},
		"too many":            {100, memory / 4, false},
		"fit, no length":      {fitUndeclared, memory, true},
		"too many, no length": {100, memory / 4, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv, network := bubble(t, server.WithMemory(int64(c.memory)))
				if err := srv.RegisterFunc("Text.Length", func(s string) int { return len(s) }); err != nil {
					t.Fatal(err)
				}
				tr := &http.Transport{
					Protocols: new(http.Protocols), MaxConnsPerHost: 1,
					DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return network.Dial(ctx, "a") },
				}
				tr.Protocols.SetUnencryptedHTTP2(true)
				defer tr.CloseIdleConnections()
				message := `{"jsonrpc":"2.0","id":1,"method":"Text.Length","params":["` + strings.Repeat("a", size) + `"]}`
				began := time.Now()
				var wg sync.WaitGroup
				var done, refused atomic.Int64
				for range c.posts {
					wg.Go(func() {
						var body io.Reader = strings.NewReader(message)
						if c.undeclared {
							body = struct{ io.Reader }{body} // net/http sends no Content-Length for this type
						}
						req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://a/jsonrpc", body)
						if err != nil {
							t.Error(err)
							return
						}
						req.Header.Set("Content-Type", "application/json")
						res, err := tr.RoundTrip(req)
						if err != nil {
							t.Error(err)
							return
						}
						defer res.Body.Close()
						switch answer, err := io.ReadAll(res.Body); {
						case err == nil && strings.Contains(string(answer), fmt.Sprintf(`"result":%d`, size)):
							done.Add(1)
						case err == nil && strings.Contains(string(answer), "-32008"):
							refused.Add(1)
						default:
							t.Errorf("%d %.200s, %v", res.StatusCode, answer, err)
						}
					})
				}
				wg.Wait()
				if took := time.Since(began); took > 0 {
					t.Errorf("%d posts took %v: they have waited for each other's data", c.posts, took)
				}
				if done.Load() == 0 || c.memory == memory && refused.Load() > 0 {
					t.Errorf("%d of %d are answered, %d refused", done.Load(), c.posts, refused.Load())
				}
			})
		})
	}
}
