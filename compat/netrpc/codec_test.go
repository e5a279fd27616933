package rpc_test

import (
	"context"
	"errors"
	"io"
	"net"
	stdjson "net/rpc/jsonrpc"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tandem-rpc/tandem"
	rpc "github.com/tandem-rpc/tandem/compat/netrpc"
	"github.com/tandem-rpc/tandem/server"
)

// tape is a codec that replays requests and records responses.
type tape struct {
	requests []request
	next     int
	bodies   int // number read or discarded
	closed   int

	mu        sync.Mutex
	responses []response
}

type request struct {
	method string
	args   *Args // nil if they can't be read
	err    error // error of the header
}

type response struct {
	rpc.Response

	reply any
}

func (c *tape) ReadRequestHeader(r *rpc.Request) error {
	if c.next == len(c.requests) {
		return io.EOF
	}
	c.next++
	r.ServiceMethod, r.Seq = c.requests[c.next-1].method, uint64(c.next)
	return c.requests[c.next-1].err
}

func (c *tape) ReadRequestBody(v any) error {
	c.bodies++
	args := c.requests[c.next-1].args
	switch {
	case v == nil:
		return nil
	case args == nil:
		return io.ErrUnexpectedEOF
	}
	*v.(*Args) = *args
	return nil
}

func (c *tape) WriteResponse(r *rpc.Response, reply any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.responses = append(c.responses, response{*r, reply})
	return nil
}

func (c *tape) Close() error { c.closed++; return nil }

// of returns the response to the nth request.
func (c *tape) of(n int) response {
	for _, r := range c.responses {
		if r.Seq == uint64(n) {
			return r
		}
	}
	return response{}
}

// TestServeCodec: the requests of a user's codec are answered until it has no more, also if
// some fail, and then the codec is closed.
func TestServeCodec(t *testing.T) {
	srv := newServer(t, server.WithInterceptors(func(next tandem.Func) tandem.Func {
		return func(ctx context.Context, call *tandem.Call) error {
			if call.Method == "Arith.Div" {
				return errors.New("refused before it was read")
			}
			var a, b Args
			if call.Method == "Arith.Add" {
				if err := errors.Join(call.Body.Decode(&a), call.Body.Decode(&b)); err != nil || a != b {
					return err
				}
			}
			return next(ctx, call)
		}
	}))
	if err := srv.Register(Arith{}); err != nil {
		t.Fatal(err)
	}
	c := &tape{requests: []request{
		{method: "Arith.Add", args: &Args{7, 8}},
		{method: "Arith.Mul", args: nil},
		{method: "Arith.Div", args: &Args{7, 0}},
		{method: "Nobody.Add", args: &Args{7, 0}},
		{method: "Arith.Mul", args: &Args{7, 8}},
	}}
	srv.ServeCodec(c)
	for i, want := range []string{"", "unexpected EOF", "refused before it was read", "rpc: can't find service Nobody.Add", ""} {
		r := c.of(i + 1)
		if r.Error != want || r.ServiceMethod != c.requests[i].method {
			t.Errorf("request %d: %+v, want error %q", i+1, r, want)
		}
	}
	if r, ok := c.of(1).reply.(*Reply); !ok || r.C != 15 {
		t.Errorf("%+v", c.of(1))
	}
	if r, ok := c.of(5).reply.(*Reply); !ok || r.C != 56 {
		t.Errorf("%+v", c.of(5))
	}
	if len(c.responses) != 5 || c.bodies != 5 || c.closed == 0 {
		t.Errorf("%d responses, %d bodies, closed %d times", len(c.responses), c.bodies, c.closed)
	}
}

// scanners is a plugin that records calls, here those of a method that does not exist.
type scanners struct{ seen []string }

func (s *scanners) AfterResponse(_ context.Context, call *tandem.Call, end tandem.Outcome) {
	s.seen = append(s.seen, call.Method+" "+end.Code().String())
}

// TestMissingMethodPassesPlugins: a call of a method that does not exist passes the plugins,
// and gets net/rpc's error text.
func TestMissingMethodPassesPlugins(t *testing.T) {
	p := &scanners{}
	c := &tape{requests: []request{{method: "Nobody.Add", args: &Args{7, 0}}}}
	newServer(t, server.WithPlugins(p)).ServeCodec(c)
	if want := []string{"Nobody.Add unimplemented"}; !slices.Equal(p.seen, want) || c.bodies != 1 {
		t.Errorf("plugins saw %q, want %q; %d bodies", p.seen, want, c.bodies)
	}
	if r := c.of(1); r.Error != "rpc: can't find service Nobody.Add" {
		t.Errorf("%+v", r)
	}
}

// TestServeRequest serves one request at a time, as net/rpc's ServeRequest: it returns an
// error only if the request can't be read, and leaves the codec open.
func TestServeRequest(t *testing.T) {
	srv := newServer(t)
	if err := errors.Join(srv.Register(Arith{})); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	c := &tape{requests: []request{
		{method: "Arith.Add", args: &Args{7, 8}},
		{method: "Arith.Add"},
		{method: "Arith.Div", args: &Args{7, 0}},
		{method: "Add"},
		{err: broken},
	}}
	for i, want := range []string{"", "unexpected EOF", "", "rpc: service/method request ill-formed: Add", "rpc: server cannot decode request: broken", "EOF"} {
		got := ""
		if err := srv.ServeRequest(c); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("request %d: %q, want %q", i+1, got, want)
		}
	}
	if len(c.responses) != 4 || c.of(3).Error != "divide by zero" || c.closed != 0 {
		t.Errorf("%+v, closed %d times", c.responses, c.closed)
	}
}

// TestPlainConnection serves a connection that is not a net.Conn, and another one after the
// server has been closed.
func TestPlainConnection(t *testing.T) {
	srv := rpc.NewServer()
	if err := srv.Register(Arith{}); err != nil {
		t.Fatal(err)
	}
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	over := make(chan struct{})
	go func() {
		defer close(over)
		srv.ServeConn(pipes{fromClient, toClient})
	}()
	c := rpc.NewClient(pipes{fromServer, toServer})
	callOne(t, c)
	_ = toServer.CloseWithError(errors.New("unexpected"))
	<-over
	_ = c.Close()
	if err := srv.Core().Close(); err != nil {
		t.Error(err)
	}
	near, far := net.Pipe()
	srv.ServeConn(far)
	if _, err := near.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("a connection to a server that has ended: %v", err)
	}
	if err := srv.ServeRequest(&tape{}); !errors.Is(err, server.ErrServerClosed) {
		t.Error(err)
	}
}

type pipes struct {
	*io.PipeReader
	*io.PipeWriter
}

func (p pipes) Close() error { return errors.Join(p.PipeReader.Close(), p.PipeWriter.Close()) }

// TestStandardCodec serves with the standard library's JSON codec.
func TestStandardCodec(t *testing.T) {
	srv := newServer(t)
	if err := srv.Register(Arith{}); err != nil {
		t.Fatal(err)
	}
	near, far := net.Pipe()
	over := make(chan struct{})
	go func() {
		defer close(over)
		srv.ServeCodec(stdjson.NewServerCodec(far))
	}()
	c := stdjson.NewClient(near)
	callOne(t, c)
	calls := make([]*rpc.Call, 100)
	for i := range calls {
		calls[i] = c.Go("Arith.Add", Args{i, 1}, new(Reply), nil)
	}
	for i, call := range slices.Backward(calls) {
		if <-call.Done; call.Error != nil || call.Reply.(*Reply).C != i+1 {
			t.Errorf("%d: %v, %v", i, call.Reply, call.Error)
		}
	}
	if err := c.Call("Arith.Div", Args{1, 0}, new(Reply)); err == nil || !strings.Contains(err.Error(), "divide by zero") {
		t.Error(err)
	}
	_ = c.Close()
	<-over
}
