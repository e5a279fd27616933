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

// Dialer connects to servers with options that net/rpc does not have. The zero value connects
// as [Dial] and [DialHTTP] do. It is safe for concurrent use as long as it is not modified.
type Dialer struct {
	// Timeout bounds connecting: looking up the name, the socket, TLS and the response to
	// CONNECT together. 0 means the system's timeouts.
	Timeout time.Duration
	// TLS, if not nil, makes connections use TLS, or HTTPS. The server's certificate must
	// be for the host of its address, unless TLS has a ServerName.
	TLS *tls.Config
	// Path is what DialHTTP connects to; [DefaultRPCPath] if it is empty.
	Path string
	// Header is sent with the CONNECT, for example to authenticate the client. The server
	// gets it as the metadata of every call on the connection, with names in lower case.
	Header http.Header
}

// DialTimeout is [Dial] with a timeout.
func DialTimeout(network, address string, timeout time.Duration) (*Client, error) {
	return (&Dialer{Timeout: timeout}).Dial(context.Background(), network, address)
}

// DialHTTPTimeout is [DialHTTP] with a timeout, which includes the server's response.
func DialHTTPTimeout(network, address string, timeout time.Duration) (*Client, error) {
	return DialHTTPPathTimeout(network, address, DefaultRPCPath, timeout)
}

// DialHTTPPathTimeout is [DialHTTPPath] with a timeout, which includes the server's response.
func DialHTTPPathTimeout(network, address, path string, timeout time.Duration) (*Client, error) {
	return (&Dialer{Timeout: timeout, Path: path}).DialHTTP(context.Background(), network, address)
}

// Dial connects to a server. ctx bounds connecting only.
func (d *Dialer) Dial(ctx context.Context, network, address string) (*Client, error) {
	ctx, cancel := d.limit(ctx)
	defer cancel()
	conn, err := d.connect(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return rpc.NewClient(conn), nil
}

// DialHTTP connects to a server at an HTTP path, or an HTTPS path if d.TLS is set. ctx bounds
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

// connected is the status of a server that accepts a CONNECT.
const connected = "200 Connected to Go RPC"

// maxAnswer bounds the response to a CONNECT, in bytes.
const maxAnswer = 16 << 10

// ask sends the CONNECT and reads the response.
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
		return errors.New("the server sends data before a request")
	}
	return nil
}
