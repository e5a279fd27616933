package jsonrpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
)

// HTTPClient is [Client] for servers over HTTP, at targets jsonrpc+http://host:port: each
// call is a POST to the path, "/" for "". With TLS on the client's transport it is HTTPS.
// Calls at a time have connections of their own, which are used again. Metadata are
// fields of the request's header, "authorization" among them.
func HTTPClient(path string, opts ...ClientOption) client.Protocol {
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return &overHTTP{dialect: newDialect(opts), path: path}
}

type overHTTP struct {
	*dialect

	path string
}

func (*overHTTP) Name() string { return "jsonrpc+http" }

// Connect connects to a server. The connection is the first call's.
func (o *overHTTP) Connect(ctx context.Context, r *client.Remote) (client.Carrier, error) {
	first, err := r.Dial(ctx)
	if err != nil {
		return nil, err
	}
	p := &poster{overHTTP: o, remote: r, first: first, done: make(chan struct{})}
	p.base, p.cancel = context.WithCancel(context.Background())
	p.http.Transport = &http.Transport{DialContext: p.dial, MaxIdleConnsPerHost: maxIdle, DisableCompression: true}
	p.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return p, nil
}

// maxIdle is how many connections to a server are kept though no call needs them.
const maxIdle = 16

// poster makes calls at one server.
type poster struct {
	*overHTTP

	remote *client.Remote
	http   http.Client
	seq    atomic.Uint64
	base   context.Context //nolint:containedctx // the connection's own: it ends with Close
	cancel context.CancelFunc
	calls  sync.WaitGroup

	mu    sync.Mutex
	first net.Conn // that nobody has used yet
	err   error
	done  chan struct{}
}

// dial makes a connection for a call. When that fails the server is not there, and the
// client connects anew when it is.
func (p *poster) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	p.mu.Lock()
	first := p.first
	p.first = nil
	p.mu.Unlock()
	if first != nil {
		return first, nil
	}
	c, err := p.remote.Dial(ctx)
	if err != nil && ctx.Err() == nil {
		p.end(err)
	}
	return c, err
}

// end notes that no more calls are carried, and why.
func (p *poster) end(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
		close(p.done)
	}
}

func (p *poster) Done() <-chan struct{} { return p.done }

func (p *poster) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

var errClosed = errors.New("closed")

// Close ends the calls in flight and closes all connections.
func (p *poster) Close() error {
	p.end(errClosed)
	p.cancel()
	p.mu.Lock()
	first := p.first
	p.first = nil
	p.mu.Unlock()
	p.calls.Wait()
	p.http.CloseIdleConnections()
	if first != nil {
		return first.Close()
	}
	return nil
}

// Carry makes a call.
func (p *poster) Carry(ctx context.Context, r *client.Request) error {
	params, err := p.params(r)
	if err != nil {
		return err
	}
	seq := p.seq.Add(1)
	status, body, err := p.post(ctx, p.appendRequest(nil, r.Call, params, seq), r.Call.Metadata)
	if err != nil {
		return err
	}
	var got answer
	switch {
	case r.Call.Kind == tandem.OneWay && status/100 == 2:
		return nil
	case len(body) > p.remote.MaxMessage+answerRoom:
		return &tandem.Error{Code: tandem.ResourceExhausted, Remote: true, Message: fmt.Sprintf("an answer of more than %d bytes", p.remote.MaxMessage)}
	case json.Unmarshal(body, &got) != nil || got.Result == nil && !isError(got.Error):
		return complaint(status, body)
	case isError(got.Error):
		return errorFrom(got.Error)
	case string(got.ID) != strconv.FormatUint(seq, 10):
		return tandem.Errorf(tandem.Internal, "the answer to request %d says that it is to %.40q", seq, got.ID)
	}
	return got.take(r)
}

// post sends a request and returns what is answered. Its error is NotExecuted if there
// was no connection to send it on.
func (p *poster) post(ctx context.Context, request []byte, md tandem.Metadata) (status int, body []byte, err error) {
	p.mu.Lock()
	why := p.err
	if why == nil {
		p.calls.Add(1)
	}
	p.mu.Unlock()
	if why != nil {
		return 0, nil, &tandem.Error{Code: tandem.Unavailable, NotExecuted: true, Message: why.Error()}
	}
	defer p.calls.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.base, cancel)()
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	resp, err := p.send(ctx, request, md)
	if err == nil {
		defer func() { _ = resp.Body.Close() }()
		body, err = io.ReadAll(io.LimitReader(resp.Body, int64(p.remote.MaxMessage)+answerRoom+1))
	}
	if err == nil {
		return resp.StatusCode, body, nil
	}
	e := tandem.AsError(err)
	if e.Code == tandem.Unknown {
		e = tandem.Errorf(tandem.Unavailable, "%w", err)
	}
	e.NotExecuted = !connected.Load()
	return 0, nil, e
}

func (p *poster) send(ctx context.Context, request []byte, md tandem.Metadata) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.remote.Endpoint.Address+p.path, bytes.NewReader(request))
	if err != nil {
		return nil, err
	}
	for key, values := range md {
		for _, v := range values {
			req.Header.Add(key, v)
		}
	}
	// With one of these net/http would send a request again that may have run.
	req.Header.Del("Idempotency-Key")
	req.Header.Del("X-Idempotency-Key")
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	return p.http.Do(req)
}

// complaint is the error for an answer that is no JSON-RPC.
func complaint(status int, body []byte) error {
	codes := map[int]tandem.Code{
		http.StatusUnauthorized: tandem.Unauthenticated, http.StatusForbidden: tandem.PermissionDenied,
		http.StatusNotFound: tandem.Unimplemented, http.StatusTooManyRequests: tandem.ResourceExhausted,
		http.StatusRequestEntityTooLarge: tandem.ResourceExhausted,
		http.StatusBadGateway:            tandem.Unavailable, http.StatusServiceUnavailable: tandem.Unavailable,
		http.StatusGatewayTimeout: tandem.Unavailable,
	}
	code, known := codes[status]
	if !known {
		code = tandem.Unknown
	}
	return &tandem.Error{
		Code: code, Remote: true,
		Message: fmt.Sprintf("HTTP %d %s: %.200q is no JSON-RPC", status, http.StatusText(status), body),
	}
}

// Ping calls a method that no server has; any answer is one.
func (p *poster) Ping(ctx context.Context) error {
	_, _, err := p.post(ctx, p.appendRequest(nil, &tandem.Call{Method: pingMethod}, []byte("[]"), p.seq.Add(1)), nil)
	return err
}
