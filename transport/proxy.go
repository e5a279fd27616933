package transport

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem"
)

// maxProxyHead bounds the bytes of a proxy's answer.
const maxProxyHead = 16 << 10

// proxyTime is how long a proxy may take to answer a Dial without a deadline.
const proxyTime = 30 * time.Second

type proxied struct {
	inner  tandem.Transport
	proxy  string
	header http.Header
}

// Proxy returns a transport that dials through an HTTP proxy, with CONNECT (RFC 9110, section
// 9.3.6). inner reaches the proxy: [TCP], or [TLS] for a proxy that is itself encrypted. With
// [TLS] round the result, the proxy sees encrypted bytes only.
//
// proxy is host:port, or http://user:password@host:port, whose user and password are sent as
// basic authentication; each of headers is one more header of the CONNECT, such as
// "Proxy-Authorization: Bearer …". The proxy resolves names.
//
// It can't listen.
func Proxy(inner tandem.Transport, proxy string, headers ...string) (tandem.Transport, error) {
	t := &proxied{inner: inner, proxy: proxy, header: http.Header{}}
	if strings.Contains(proxy, "@") && !strings.Contains(proxy, "://") {
		return nil, errors.New("transport: proxy: want host:port or http://user:password@host:port") // without the text, which may have a password
	}
	if strings.Contains(proxy, "://") {
		u, err := url.Parse(proxy)
		if err != nil || u.Scheme != "http" || u.Port() == "" || strings.Trim(u.Path, "/") != "" {
			return nil, errors.New("transport: proxy: want host:port or http://user:password@host:port") // without the text, which may have a password
		}
		t.proxy = u.Host
		if u.User != nil {
			password, _ := u.User.Password()
			token := base64.StdEncoding.EncodeToString([]byte(u.User.Username() + ":" + password))
			t.header.Set("Proxy-Authorization", "Basic "+token)
		}
	}
	for i, h := range headers {
		name, value, ok := strings.Cut(h, ":")
		if value = strings.TrimSpace(value); !ok || name == "" || strings.ContainsAny(h, "\r\n") {
			return nil, fmt.Errorf("transport: proxy: header %d: want Name: value", i+1) // without the text, which may have a password
		}
		t.header.Set(name, value)
	}
	return t, nil
}

func (t *proxied) Listen(context.Context, string) (net.Listener, error) {
	return nil, errors.New("transport: a proxy's transport only dials")
}

func (t *proxied) Dial(ctx context.Context, address string) (net.Conn, error) {
	c, err := t.inner.Dial(ctx, t.proxy)
	if err != nil {
		return nil, fmt.Errorf("%s through the proxy: %w", address, err)
	}
	through, err := t.connect(ctx, c, address)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s through the proxy %s: %w", address, t.proxy, err), c.Close())
	}
	return through, nil
}

// connect asks the proxy at the other end of c for a connection.
func (t *proxied) connect(ctx context.Context, c net.Conn, address string) (net.Conn, error) {
	if err := c.SetDeadline(time.Now().Add(proxyTime)); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	left, err := t.ask(ctx, c, address)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	if err := c.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	if len(left) > 0 {
		return &begun{c, left}, nil
	}
	return c, nil
}

// ask sends the request, reads the answer, and returns the bytes that came after it.
func (t *proxied) ask(ctx context.Context, c net.Conn, address string) (left []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodConnect, "", nil)
	if err != nil {
		return nil, err
	}
	r.URL, r.Host, r.Header = &url.URL{Opaque: address}, address, t.header
	if err := r.Write(c); err != nil {
		return nil, err
	}
	in := bufio.NewReader(io.LimitReader(c, maxProxyHead))
	// The body stays open: closing would read it to its end. After a successful answer there is
	// none, whatever the header says of its length, and after a refusal c is closed.
	answer, err := http.ReadResponse(in, r) //nolint:bodyclose // see above
	if err != nil {
		return nil, err
	}
	if answer.StatusCode/100 != 2 {
		return nil, errors.New(answer.Status)
	}
	return in.Peek(in.Buffered())
}

// begun is a connection whose first bytes have been read already.
type begun struct {
	net.Conn
	left []byte
}

func (b *begun) Read(p []byte) (int, error) {
	if len(b.left) > 0 {
		n := copy(p, b.left)
		b.left = b.left[n:]
		return n, nil
	}
	return b.Conn.Read(p)
}

// NetConn returns the connection to the proxy.
func (b *begun) NetConn() net.Conn { return b.Conn }

// CloseWrite ends the sending half.
func (b *begun) CloseWrite() error {
	if w, ok := b.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}
