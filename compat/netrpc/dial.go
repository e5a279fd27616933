package rpc

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/rpc"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem/transport"
)

// Dialer connects to servers in ways that net/rpc has no functions for. The zero
// value connects as [Dial] and [DialHTTP] do. It is safe for concurrent use as long
// as nobody changes it.
type Dialer struct {
	// Timeout is how long connecting may take: the name, the socket, TLS and the
	// answer to CONNECT together. 0 leaves that to the system.
	Timeout time.Duration
	// TLS, if not nil, is put on the connection: RPC over TLS, or over HTTPS.
	// The server is verified by the host of its address unless it names one.
	TLS *tls.Config
	// Path is what DialHTTP connects to; [DefaultRPCPath] if it is empty.
	Path string
	// Header is sent with the CONNECT: who the client is, as a rule. It is the
	// metadata of every call on the connection, its names in lower case.
	Header http.Header
}

// DialTimeout is [Dial] that takes at most that long.
func DialTimeout(network, address string, timeout time.Duration) (*Client, error) {
	return (&Dialer{Timeout: timeout}).Dial(context.Background(), network, address)
}

// DialHTTPTimeout is [DialHTTP] that takes at most that long, the server's answer
// included.
func DialHTTPTimeout(network, address string, timeout time.Duration) (*Client, error) {
	return DialHTTPPathTimeout(network, address, DefaultRPCPath, timeout)
}

// DialHTTPPathTimeout is [DialHTTPPath] that takes at most that long, the server's
// answer included.
func DialHTTPPathTimeout(network, address, path string, timeout time.Duration) (*Client, error) {
	return (&Dialer{Timeout: timeout, Path: path}).DialHTTP(context.Background(), network, address)
}

// Dial connects to a server. ctx is for connecting only.
func (d *Dialer) Dial(ctx context.Context, network, address string) (*Client, error) {
	ctx, cancel := d.limit(ctx)
	defer cancel()
	conn, err := d.connect(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return rpc.NewClient(conn), nil
}

// DialHTTP connects to a server on a path of HTTP, or of HTTPS with TLS. ctx is for
// connecting only.
func (d *Dialer) DialHTTP(ctx context.Context, network, address string) (*Client, error) {
	ctx, cancel := d.limit(ctx)
	defer cancel()
	conn, err := d.connect(ctx, network, address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	err = d.ask(conn)
	if !stop() {
		err = errors.Join(context.Cause(ctx), err)
	}
	if err != nil {
		_ = conn.Close() // the other error says why
		return nil, &net.OpError{Op: "dial-http", Net: network + " " + address, Err: err}
	}
	return rpc.NewClient(conn), nil
}

func (d *Dialer) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if d.Timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, d.Timeout)
}

func (d *Dialer) connect(ctx context.Context, network, address string) (net.Conn, error) {
	t := transport.Stream(network)
	if d.TLS != nil {
		t = transport.TLS(t, d.TLS)
	}
	return t.Dial(ctx, address)
}

// connected is how a server answers a CONNECT that it takes.
const connected = "200 Connected to Go RPC"

// maxAnswer bounds the answer to a CONNECT, in bytes.
const maxAnswer = 16 << 10

// ask sends the CONNECT and reads the answer.
func (d *Dialer) ask(conn net.Conn) error {
	path := d.Path
	if path == "" {
		path = DefaultRPCPath
	}
	var head strings.Builder
	fmt.Fprintf(&head, "CONNECT %s HTTP/1.0\r\n", path)
	if err := d.Header.Write(&head); err != nil {
		return err
	}
	head.WriteString("\r\n")
	if _, err := io.WriteString(conn, head.String()); err != nil {
		return err
	}
	br := bufio.NewReader(io.LimitReader(conn, maxAnswer))
	resp, err := http.ReadResponse(br, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return err
	}
	_ = resp.Body.Close() // it has none: what follows is RPC
	switch {
	case resp.Status != connected:
		return errors.New("unexpected HTTP response: " + resp.Status)
	case br.Buffered() > 0:
		return errors.New("the server speaks before it is asked")
	}
	return nil
}
