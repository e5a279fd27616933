package transport_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/transport"
	"github.com/tandem-rpc/tandem/transport/transporttest"
)

// connectProxy is an HTTP proxy that accepts user:secret and bearers of a token. It ends with
// the test.
func connectProxy(t testing.TB) (address string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(passThrough)}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }()
	t.Cleanup(func() { srv.Close(); <-done })
	return ln.Addr().String()
}

func passThrough(w http.ResponseWriter, r *http.Request) {
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("user:secret"))
	if auth := r.Header.Get("Proxy-Authorization"); auth != basic && auth != "Bearer token" {
		http.Error(w, "who are you?", http.StatusProxyAuthRequired)
		return
	}
	if r.Method != http.MethodConnect {
		http.Error(w, "only CONNECT", http.StatusMethodNotAllowed)
		return
	}
	far, err := net.Dial("tcp", r.Host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	near, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		far.Close()
		return
	}
	_, _ = io.WriteString(near, "HTTP/1.1 200 Connection established\r\n\r\n")
	go pipe(far, near)
	pipe(near, far)
}

// pipe copies until the end, and passes the end on.
func pipe(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if w, ok := to.(*net.TCPConn); ok && err == nil {
		_ = w.CloseWrite()
		return
	}
	_ = to.Close()
}

// The server's first bytes may arrive together with the proxy's answer, whose Content-Length
// has no meaning.
func TestProxyKeepsFirstBytes(t *testing.T) {
	for name, header := range map[string]string{
		"no body":  "",
		"chunked":  "Transfer-Encoding: chunked\r\n",
		"a length": "Content-Length: 5\r\n",
		"longer":   "Content-Length: 500\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			got := make(chan struct{})
			go func() {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				defer c.Close()
				_, _ = c.Read(make([]byte, 4096))
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n"+header+"\r\nfirst words")
				<-got
			}()
			through, err := transport.Proxy(transport.TCP(), ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			c, err := through.Dial(ctx, "far.example:1")
			close(got)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if b, err := io.ReadAll(c); string(b) != "first words" || err != nil {
				t.Errorf("%q, %v", b, err)
			}
		})
	}
}

// The error of a proxy that refuses has its answer, but no secret.
func TestProxyRefuses(t *testing.T) {
	proxy := connectProxy(t)
	for name, c := range map[string]struct{ proxy, address, want string }{
		"no user":     {proxy, "127.0.0.1:1", "407 Proxy Authentication Required"},
		"wrong":       {"http://user:hidden@" + proxy, "127.0.0.1:1", "407 Proxy Authentication Required"},
		"unreachable": {"http://user:secret@" + proxy, "127.0.0.1:1", "502 Bad Gateway"},
		"no proxy":    {"127.0.0.1:1", "far.example:1", "far.example:1 through the proxy"},
	} {
		through, err := transport.Proxy(transport.TCP(), c.proxy)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := through.Dial(t.Context(), c.address)
		if err == nil {
			conn.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.address) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v, want %q and the address in it", name, err, c.want)
		}
	}
	for _, bad := range []string{"https://p:1", "http://p", "http://p:1/path", "://", "http://user:hidden@%zz:1"} {
		if _, err := transport.Proxy(transport.TCP(), bad); err == nil || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	for _, bad := range []string{"", "Name", ": value", "Name: value\r\nOther: value"} {
		if _, err := transport.Proxy(transport.TCP(), proxy, bad); err == nil {
			t.Errorf("the header %q is taken", bad)
		}
	}
	if _, err := func() (net.Listener, error) {
		p, _ := transport.Proxy(transport.TCP(), proxy)
		return p.Listen(t.Context(), "127.0.0.1:0")
	}(); err == nil {
		t.Error("it listens")
	}
}

// A proxy that sends nothing, or an endless answer, does not block Dial forever.
func TestProxyThatSendsNoAnswer(t *testing.T) {
	for name, answer := range map[string]func(net.Conn) error{
		"silent":  func(c net.Conn) error { _, err := io.Copy(io.Discard, c); return err },
		"endless": endless,
	} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			c, err := ln.Accept()
			if err == nil {
				err = answer(c)
				c.Close()
			}
			done <- err
		}()
		through, err := transport.Proxy(transport.TCP(), ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		if c, err := through.Dial(ctx, "far.example:1"); err == nil {
			c.Close()
			t.Errorf("%s: a connection", name)
		}
		cancel()
		<-done
		ln.Close()
	}
}

// endless sends a header that does not end.
func endless(c net.Conn) error {
	if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\n"); err != nil {
		return err
	}
	for {
		if _, err := fmt.Fprintf(c, "X-More: %0100d\r\n", 1); err != nil {
			return err
		}
	}
}

// Connections through a proxy pass the behaviour suite.
func TestProxyBehaviour(t *testing.T) {
	transporttest.Run(t, func(t testing.TB) transporttest.Harness {
		through, err := transport.Proxy(transport.TCP(), connectProxy(t), "Proxy-Authorization: Bearer token")
		if err != nil {
			t.Fatal(err)
		}
		return transporttest.Harness{
			Server: transport.TCP(), Client: through, Name: "tcp", Address: func() string { return "127.0.0.1:0" },
		}
	})
}

func ExampleProxy() {
	ln, err := transport.TCP().Listen(context.Background(), "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ln.Close()
	go func() {
		c, err := ln.Accept()
		if err == nil {
			fmt.Fprint(c, "hello")
			c.Close()
		}
	}()
	proxy := httptest.NewServer(http.HandlerFunc(passThrough)) // lets user:secret through
	defer proxy.Close()

	through, err := transport.Proxy(transport.TCP(), strings.Replace(proxy.URL, "http://", "http://user:secret@", 1))
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := through.Dial(context.Background(), ln.Addr().String())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	b, err := io.ReadAll(c)
	fmt.Println(string(b), err)
	// Output: hello <nil>
}
