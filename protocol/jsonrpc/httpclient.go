package jsonrpc

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/internal/httpcalls"
)

// HTTPClient is [Client] for servers over HTTP, at targets jsonrpc+http://host:port: each
// call is a POST to the path, "" for "/". With TLS on the client's transport it is HTTPS.
// Concurrent calls use separate connections, which are reused. Metadata are fields of the
// request's header, such as "authorization", and the deadline is sent as
// Connect-Timeout-Ms, which tandem's servers respect.
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

// Connect connects to a server. The first call uses the connection.
func (o *overHTTP) Connect(ctx context.Context, r *client.Remote) (client.Carrier, error) {
	s, err := httpcalls.Connect(ctx, r.Dial)
	if err != nil {
		return nil, err
	}
	return &poster{Server: s, overHTTP: o, remote: r}, nil
}

// poster makes calls to one server.
type poster struct {
	*httpcalls.Server
	*overHTTP

	remote *client.Remote
	seq    atomic.Uint64
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
		return &tandem.Error{Code: tandem.ResourceExhausted, Message: fmt.Sprintf("a response of more than %d bytes: raise the limit with WithMaxMessage", p.remote.MaxMessage)}
	case json.Unmarshal(body, &got) != nil || got.Result == nil && !isError(got.Error):
		return complaint(status, body)
	case isError(got.Error):
		return errorFrom(got.Error)
	case string(got.ID) != strconv.FormatUint(seq, 10):
		return tandem.Errorf(tandem.Internal, "the answer to request %d says that it is to %.40q", seq, got.ID)
	}
	return got.take(r)
}

// post sends a request and returns the response.
func (p *poster) post(ctx context.Context, request []byte, md tandem.Metadata) (status int, body []byte, err error) {
	err = p.Do(ctx, func(ctx context.Context, a *httpcalls.Attempt) error {
		resp, err := p.send(ctx, request, md)
		if err != nil {
			return a.Failed(err)
		}
		defer func() { _ = resp.Body.Close() }()
		status = resp.StatusCode
		if body, err = io.ReadAll(io.LimitReader(resp.Body, int64(p.remote.MaxMessage)+answerRoom+1)); err != nil {
			return a.Failed(err)
		}
		return nil
	})
	return status, body, err
}

func (p *poster) send(ctx context.Context, request []byte, md tandem.Metadata) (*http.Response, error) {
	if err := httpcalls.Check(md, false); err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+httpcalls.Host(p.remote.Endpoint.Address)+p.path, bytes.NewReader(request))
	if err != nil {
		return nil, err
	}
	for key, values := range md {
		for _, v := range values {
			req.Header.Add(key, v)
		}
	}
	httpcalls.Strip(req.Header)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	if deadline, ok := ctx.Deadline(); ok {
		req.Header.Set(timeoutField, strconv.FormatInt(max(1, time.Until(deadline).Milliseconds()), 10))
	}
	return p.HTTP.Do(req)
}

// complaint returns the error for a response that is not JSON-RPC.
func complaint(status int, body []byte) error {
	codes := map[int]tandem.Code{
		http.StatusUnauthorized: tandem.Unauthenticated, http.StatusForbidden: tandem.PermissionDenied,
		http.StatusNotFound: tandem.Unimplemented, http.StatusTooManyRequests: tandem.ResourceExhausted,
		http.StatusRequestEntityTooLarge: tandem.ResourceExhausted,
		http.StatusBadGateway:            tandem.Unavailable, http.StatusServiceUnavailable: tandem.Unavailable,
		http.StatusGatewayTimeout: tandem.Unavailable,
	}
	code, known := codes[status]
	switch {
	case known:
	case status/100 == 2 || status == http.StatusInternalServerError:
		code = tandem.Internal
	default:
		code = tandem.Unknown
	}
	return &tandem.Error{
		Code: code, Remote: true,
		Message: fmt.Sprintf("HTTP %d %s: %.200q is no JSON-RPC", status, http.StatusText(status), body),
	}
}

// Ping calls a method that no server has; any response counts as success.
func (p *poster) Ping(ctx context.Context) error {
	_, _, err := p.post(ctx, p.appendRequest(nil, &tandem.Call{Method: pingMethod}, []byte("[]"), p.seq.Add(1)), nil)
	return err
}
