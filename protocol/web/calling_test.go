package web_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
)

// connectServer runs a connect-go server, which also supports gRPC. Requests pass what wraps its handler.
func connectServer(t *testing.T, wraps ...func(http.Handler) http.Handler) (address string) {
	t.Helper()
	mux := http.NewServeMux()
	handle := func(name string, f func(ctx context.Context, in string) (string, error)) {
		path := "/test.v1.Texts/" + name
		mux.Handle(path, connect.NewUnaryHandler(path, func(ctx context.Context, req *connect.Request[wrapperspb.StringValue]) (*connect.Response[wrapperspb.StringValue], error) {
			out, err := f(ctx, req.Msg.GetValue())
			if err != nil {
				return nil, err
			}
			resp := connect.NewResponse(wrapperspb.String(out))
			resp.Header().Set("Token", req.Header().Get("Authorization"))
			resp.Trailer().Set("Last", "word")
			resp.Trailer().Set("Bytes-Bin", connect.EncodeBinaryHeader([]byte{0, 1}))
			return resp, nil
		}))
	}
	handle("Twice", func(_ context.Context, in string) (string, error) { return in + in, nil })
	handle("Wait", func(ctx context.Context, _ string) (string, error) { <-ctx.Done(); return "", ctx.Err() })
	handle("Fail", func(context.Context, string) (string, error) {
		err := connect.NewError(connect.CodeFailedPrecondition, errors.New("not now"))
		detail, _ := connect.NewErrorDetail(wrapperspb.Int64(7))
		err.AddDetail(detail)
		return "", err
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var handler http.Handler = mux
	for _, wrap := range wraps {
		handler = wrap(handler)
	}
	srv := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute, Protocols: new(http.Protocols)}
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetUnencryptedHTTP2(true)
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(ln) }()
	t.Cleanup(func() {
		_ = srv.Close()
		<-ended
	})
	return ln.Addr().String()
}

func calls(t *testing.T, target string) *client.Client {
	t.Helper()
	c, err := client.Dial(target, client.WithProtocols(web.GRPC(), web.Connect()), client.WithTimeout(time.Minute), client.WithWait(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Our client calls a connect-go server, over gRPC and over Connect.
func TestCallsConnectServer(t *testing.T) {
	address := connectServer(t)
	for _, scheme := range []string{"grpc", "connect"} {
		t.Run(scheme, func(t *testing.T) {
			c := calls(t, scheme+"://"+address)
			var wg sync.WaitGroup
			for range 20 {
				wg.Go(func() {
					for range 20 {
						callTwice(t, c, "ab")
					}
				})
			}
			wg.Wait()
			callTwice(t, c, "")
			callTwice(t, c, strings.Repeat("x", 1<<20))
			var back tandem.Metadata
			err := c.Call(t.Context(), "test.v1.Texts.Twice", wrapperspb.String("a"), nil,
				client.Metadata("authorization", "bearer x"), client.Trailer(&back))
			if err != nil || back.Get("token") != "bearer x" || back.Get("last") != "word" || back.Get("bytes-bin") != "\x00\x01" {
				t.Errorf("metadata back: %v, %v", back, err)
			}
			failsAsSaid(t, c)
		})
	}
}

func callTwice(t *testing.T, c *client.Client, text string) {
	t.Helper()
	out, err := client.Invoke[wrapperspb.StringValue](t.Context(), c, "test.v1.Texts.Twice", wrapperspb.String(text))
	if err != nil || out.GetValue() != text+text {
		t.Errorf("%d bytes: %v", len(text), err)
	}
}

func failsAsSaid(t *testing.T, c *client.Client) {
	t.Helper()
	in := wrapperspb.String("x")
	e := tandem.AsError(c.Call(t.Context(), "test.v1.Texts.Fail", in, nil))
	if e == nil || e.Code != tandem.FailedPrecondition || e.Message != "not now" || !e.Remote || e.NotExecuted ||
		len(e.Details) != 1 || e.Details[0].Type != "google.protobuf.Int64Value" {
		t.Errorf("%+v", e)
	}
	if err := c.Call(t.Context(), "test.v1.Texts.Unheard", in, nil); tandem.CodeOf(err) != tandem.Unimplemented {
		t.Error(err)
	}
	if err := c.Call(t.Context(), "test.v1.Texts.Wait", in, nil, client.Timeout(100*time.Millisecond)); tandem.CodeOf(err) != tandem.DeadlineExceeded {
		t.Error(err)
	}
	if err := c.Call(t.Context(), "test.v1.Texts.Twice", tandem.Args{in, in}, nil); tandem.MayHaveExecuted(err) {
		t.Error(err)
	}
}

// listen serves on a free port until the test ends, and returns the address.
func listen(t *testing.T, srv *server.Server) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.ServeListener(ln) }()
	t.Cleanup(func() {
		_ = srv.Close()
		<-ended
	})
	return ln.Addr().String()
}

// Our client calls our own server too, also with JSON.
func TestCallsOurServer(t *testing.T) {
	srv := server.New(server.WithProtocols(web.New()))
	err := errors.Join(srv.RegisterFunc("test.v1.Texts.Twice", func(in, out *wrapperspb.StringValue) error {
		out.Value = in.GetValue() + in.GetValue()
		return nil
	}), srv.RegisterFunc("Plain.Len", func(s string) int { return len(s) }))
	if err != nil {
		t.Fatal(err)
	}
	address := listen(t, srv)
	for _, scheme := range []string{"grpc", "connect"} {
		c := calls(t, scheme+"://"+address)
		callTwice(t, c, "ab")
		if n, err := client.Invoke[int](t.Context(), c, "Plain.Len", "tandem", client.Codec("json")); err != nil || *n != 6 {
			t.Errorf("%s: %v", scheme, err)
		}
	}
}

// A call to a server that is not there fails with an error that says it was not executed.
func TestCallServerThatIsGone(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = ln.Close()
	for _, scheme := range []string{"grpc", "connect"} {
		err := calls(t, scheme+"://"+ln.Addr().String()).Call(t.Context(), "test.v1.Texts.Twice", wrapperspb.String("x"), nil)
		if tandem.CodeOf(err) != tandem.Unavailable || tandem.MayHaveExecuted(err) {
			t.Errorf("%s: %v", scheme, err)
		}
	}
}

// Retry-After and NotExecuted of an error reach our client, also from servers of other
// implementations.
func TestAdviceCrosses(t *testing.T) {
	srv := server.New(server.WithProtocols(web.New()), server.WithInterceptors(func(next tandem.Func) tandem.Func {
		return func(ctx context.Context, call *tandem.Call) error {
			switch call.Method {
			case "T.Busy":
				return &tandem.Error{Code: tandem.ResourceExhausted, Message: "busy", NotExecuted: true, RetryAfter: 1500 * time.Millisecond}
			case "T.Never":
				return &tandem.Error{Code: tandem.Unavailable, Message: "no more", RetryAfter: tandem.DoNotRetry}
			}
			return next(ctx, call)
		}
	}))
	for _, name := range []string{"T.Busy", "T.Never", "T.Ran"} {
		if err := srv.RegisterFunc(name, func(*text) (*text, error) {
			return nil, &tandem.Error{Code: tandem.Unavailable, Message: "ran", NotExecuted: true} // although it did
		}); err != nil {
			t.Fatal(err)
		}
	}
	foreign := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.Header().Set("Content-Type", asJSON)
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(`{"code":"unavailable"}`))
	}))
	defer foreign.Close()
	ours := listen(t, srv)
	for _, c := range []struct {
		target, method string
		want           tandem.Error
	}{
		{"grpc://" + ours, "T.Busy", tandem.Error{NotExecuted: true, RetryAfter: 1500 * time.Millisecond}},
		{"connect://" + ours, "T.Busy", tandem.Error{NotExecuted: true, RetryAfter: 1500 * time.Millisecond}},
		{"grpc://" + ours, "T.Never", tandem.Error{RetryAfter: tandem.DoNotRetry}},
		{"connect://" + ours, "T.Never", tandem.Error{RetryAfter: tandem.DoNotRetry}},
		{"grpc://" + ours, "T.Ran", tandem.Error{}},
		{"connect://" + ours, "T.Ran", tandem.Error{}},
		{"connect://" + foreign.Listener.Addr().String(), "T.Ran", tandem.Error{RetryAfter: 7 * time.Second}},
	} {
		caller, err := client.Dial(c.target, client.WithProtocols(web.GRPC(), web.Connect()), client.WithFailMode(client.Failfast))
		if err != nil {
			t.Fatal(err)
		}
		e := tandem.AsError(caller.Call(t.Context(), c.method, &text{}, &text{}))
		if e == nil || !e.Remote || e.NotExecuted != c.want.NotExecuted || e.RetryAfter != c.want.RetryAfter {
			t.Errorf("%s, %s: %+v, want %+v", c.target, c.method, e, c.want)
		}
		_ = caller.Close()
	}
}

// Metadata that is larger than the server takes is an error that says so; the call was not executed.
func TestMetadataTooLarge(t *testing.T) {
	srv := server.New(server.WithProtocols(web.New()))
	if err := srv.RegisterFunc("T.Nop", func(m *text) (*text, error) { return m, nil }); err != nil {
		t.Fatal(err)
	}
	address := listen(t, srv)
	for _, scheme := range []string{"grpc", "connect"} {
		c, err := client.Dial(scheme+"://"+address, client.WithProtocols(web.GRPC(), web.Connect()))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.Call(t.Context(), "T.Nop", &text{}, &text{}); err != nil { // so that the server's limit is known
			t.Fatal(err)
		}
		e := tandem.AsError(c.Call(t.Context(), "T.Nop", &text{}, &text{}, client.Metadata("long", strings.Repeat("x", 200<<10))))
		if e == nil || e.Code != tandem.ResourceExhausted || !e.NotExecuted {
			t.Errorf("%s: %+v", scheme, e)
		}
	}
}
