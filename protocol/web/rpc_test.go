package web_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
)

type (
	text   = wrapperspb.StringValue
	number = wrapperspb.Int64Value
)

// protocols are the protocols of connect's client.
var protocols = map[string][]connect.ClientOption{
	"connect": nil, "grpc": {connect.WithGRPC()}, "grpc-web": {connect.WithGRPCWeb()},
	"connect json": {connect.WithProtoJSON()}, "grpc json": {connect.WithGRPC(), connect.WithProtoJSON()},
}

// each runs a test over each protocol, HTTP version and compression.
func (w *webTest) each(test func(t *testing.T, c *http.Client, opts ...connect.ClientOption)) {
	for name, opts := range protocols {
		for version, c := range map[string]*http.Client{"HTTP/1.1": w.h1, "HTTP/2": w.h2} {
			if version == "HTTP/1.1" && strings.HasPrefix(name, "grpc") && name != "grpc-web" {
				continue
			}
			w.Run(name+" "+version, func(t *testing.T) { test(t, c, opts...) })
			w.Run(name+" gzip "+version, func(t *testing.T) { test(t, c, append(slices.Clone(opts), connect.WithSendGzip())...) })
		}
	}
}

func newClient[Req, Res any](c *http.Client, method string, opts ...connect.ClientOption) *connect.Client[Req, Res] {
	return connect.NewClient[Req, Res](c, "http://tandem.test/"+method, opts...)
}

func TestUnary(t *testing.T) {
	long := strings.Repeat("a", 2000)
	w := newWebTest(t, web.New())
	w.must(server.Handle(w.srv, "test.v1.Text.Upper", func(ctx context.Context, s *text) (*text, error) {
		call := tandem.FromContext(ctx)
		web.Header(ctx).Set("Header", "h")
		call.Trailer = tandem.Metadata{"tail": {"t"}, "tail-bin": {"\x00\xff"}}
		if s.GetValue() == "" {
			e := &tandem.Error{Code: tandem.FailedPrecondition, Message: "empty", RetryAfter: 1500 * time.Millisecond}
			return nil, e.WithDetail("google.protobuf.Int64Value", []byte{8, 7})
		}
		return &text{Value: strings.ToUpper(s.GetValue()) + call.Metadata.Get("mark") + call.Metadata.Get("mark-bin")}, nil
	}))
	w.each(func(t *testing.T, c *http.Client, opts ...connect.ClientOption) {
		client := newClient[text, text](c, "test.v1.Text/Upper", opts...)
		req := connect.NewRequest(&text{Value: long})
		req.Header().Set("Mark", "!")
		req.Header().Set("Mark-Bin", connect.EncodeBinaryHeader([]byte{0, 0xfe}))
		_, err := client.CallUnary(t.Context(), req)
		if connect.CodeOf(err) != connect.CodeInternal { // the response is not UTF-8, and must not pass as text
			t.Errorf("answer that is no UTF-8: %v", err)
		}
		req.Header().Set("Mark-Bin", connect.EncodeBinaryHeader([]byte("?")))
		res, err := client.CallUnary(t.Context(), req)
		if err != nil || res.Msg.GetValue() != strings.ToUpper(long)+"!?" || res.Header().Get("Header") != "h" || res.Trailer().Get("Tail") != "t" {
			t.Fatalf("%.100v, %v", res, err)
		}
		if b, err := connect.DecodeBinaryHeader(res.Trailer().Get("Tail-Bin")); err != nil || string(b) != "\x00\xff" {
			t.Errorf("binary trailer %x, %v", b, err)
		}
		_, err = client.CallUnary(t.Context(), connect.NewRequest(&text{}))
		e, ok := errors.AsType[*connect.Error](err)
		if !ok || e.Code() != connect.CodeFailedPrecondition || e.Message() != "empty" || len(e.Details()) != 1 || e.Meta().Get("Grpc-Retry-Pushback-Ms") != "1500" {
			t.Fatal(err)
		}
		if v, err := e.Details()[0].Value(); err != nil || v.(*number).GetValue() != 7 {
			t.Errorf("detail %v, %v", v, err)
		}
	})
}

func sum(_ context.Context, s *tandem.Stream[number, number]) error {
	total := int64(0)
	for m, err := range s.All() {
		if err != nil {
			return err
		}
		total += m.GetValue()
		if err := s.Send(&number{Value: total}); err != nil {
			return err
		}
	}
	return tandem.Errorf(tandem.OutOfRange, "no more after %d", total)
}

func TestStreams(t *testing.T) {
	w := newWebTest(t, web.New())
	w.must(server.HandleStream(w.srv, "Numbers.Sum", sum))
	w.each(func(t *testing.T, c *http.Client, opts ...connect.ClientOption) {
		s := newClient[number, number](c, "Numbers/Sum", opts...).CallBidiStream(t.Context())
		if c == w.h1 { // connect's client has no bidirectional streams over HTTP/1.1; the conformance suite has
			_ = errors.Join(s.Send(&number{}), s.CloseRequest())
			if m, err := s.Receive(); connect.CodeOf(err) != connect.CodeUnimplemented {
				t.Errorf("%v, %v", m, err)
			}
			return
		}
		for i := range int64(5) {
			if err := s.Send(&number{Value: i}); err != nil {
				t.Fatal(err)
			}
			m, err := s.Receive()
			if err != nil || m.GetValue() != i*(i+1)/2 {
				t.Fatalf("%v, %v", m, err)
			}
		}
		if err := s.CloseRequest(); err != nil {
			t.Fatal(err)
		}
		if m, err := s.Receive(); connect.CodeOf(err) != connect.CodeOutOfRange || !strings.HasSuffix(err.Error(), "no more after 10") {
			t.Errorf("%v, %v", m, err)
		}
		if err := s.CloseResponse(); err != nil {
			t.Error(err)
		}
	})
}

// A method may return while its goroutines still use its stream: they get errors.
func TestStreamOutlivesItsMethod(t *testing.T) {
	left := make(chan error, 2)
	w := newWebTest(t, web.New())
	w.must(server.HandleStream(w.srv, "Numbers.Leave", func(_ context.Context, s *tandem.Stream[number, number]) error {
		go func() {
			_, err := s.Recv()
			for err == nil || errors.Is(err, io.EOF) {
				_, err = s.Recv()
			}
			left <- err
		}()
		go func() {
			for {
				if err := s.Send(&number{Value: 1}); err != nil {
					left <- err
					return
				}
			}
		}()
		return nil
	}))
	s := newClient[number, number](w.h2, "Numbers/Leave", connect.WithGRPC()).CallBidiStream(t.Context())
	_ = s.Send(nil)
	for {
		if _, err := s.Receive(); err != nil {
			if !errors.Is(err, io.EOF) {
				t.Error(err)
			}
			break
		}
	}
	for range 2 {
		if err := <-left; tandem.CodeOf(err) == tandem.OK {
			t.Error(err)
		}
	}
}

// A refused call costs little: nothing of its message is read or decompressed.
func TestRefusedBeforeTheMessage(t *testing.T) {
	refuse := func(tandem.Func) tandem.Func {
		return func(_ context.Context, call *tandem.Call) error {
			return tandem.Errorf(tandem.Unauthenticated, "%s: who are you", call.Peer.Protocol)
		}
	}
	w := newWebTest(t, web.New(), server.WithInterceptors(refuse))
	w.must(server.Handle(w.srv, "Text.Len", func(_ context.Context, s *text) (*number, error) {
		return &number{Value: int64(len(s.GetValue()))}, nil
	}))
	for contentType, want := range map[string]string{"application/proto": "connect", "application/grpc": "grpc", "application/grpc-web": "grpc-web"} {
		body, write := io.Pipe() // no body arrives
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://tandem.test/Text/Len", body)
		w.must(err)
		req.Header.Set("Content-Type", contentType)
		res, err := w.h2.Do(req)
		w.must(err)
		b, err := io.ReadAll(res.Body)
		w.must(err)
		w.must(res.Body.Close())
		w.must(write.Close())
		said := string(b) + res.Header.Get("Grpc-Message") + res.Trailer.Get("Grpc-Message")
		if !strings.Contains(said, want+": who are you") {
			t.Errorf("%s: %d %s", contentType, res.StatusCode, said)
		}
	}
}

func TestLimits(t *testing.T) {
	const most = 1000
	w := newWebTest(t, web.New(), server.WithMaxMessage(most))
	w.must(server.Handle(w.srv, "Text.Len", func(_ context.Context, s *text) (*number, error) {
		return &number{Value: int64(len(s.GetValue()))}, nil
	}))
	w.each(func(t *testing.T, c *http.Client, opts ...connect.ClientOption) {
		client := newClient[text, number](c, "Text/Len", opts...)
		if res, err := client.CallUnary(t.Context(), connect.NewRequest(&text{Value: strings.Repeat("a", most-100)})); err != nil || res.Msg.GetValue() != most-100 {
			t.Errorf("%v, %v", res, err)
		}
		if _, err := client.CallUnary(t.Context(), connect.NewRequest(&text{Value: strings.Repeat("a", most)})); connect.CodeOf(err) != connect.CodeResourceExhausted {
			t.Error(err)
		}
	})
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, _ = z.Write(make([]byte, 800<<10))
	w.must(z.Close())
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://tandem.test/Text/Len", &bomb)
	w.must(err)
	req.Header.Set("Content-Type", "application/proto")
	req.Header.Set("Content-Encoding", "gzip")
	res, err := w.h1.Do(req)
	w.must(err)
	b, err := io.ReadAll(res.Body)
	w.must(errors.Join(err, res.Body.Close()))
	if want := `message has more than 1000 bytes`; !strings.Contains(string(b), want) {
		t.Errorf("%s, want %s", b, want)
	}
}

func TestDeadlines(t *testing.T) {
	w := newWebTest(t, web.New())
	w.must(server.Handle(w.srv, "Text.Wait", func(ctx context.Context, _ *text) (*text, error) {
		d, ok := ctx.Deadline()
		if !ok || time.Until(d) > patience || !d.Equal(tandem.FromContext(ctx).Deadline) {
			return nil, fmt.Errorf("deadline %v %v", d, ok)
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}))
	w.each(func(t *testing.T, c *http.Client, opts ...connect.ClientOption) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := newClient[text, text](c, "Text/Wait", opts...).CallUnary(ctx, connect.NewRequest(&text{Value: "a"}))
		if connect.CodeOf(err) != connect.CodeDeadlineExceeded {
			t.Error(err)
		}
	})
}

// Calls in flight are answered when the server drains, and their clients are told to use
// another connection; idle connections end.
func TestDrain(t *testing.T) {
	for _, version := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(version, func(t *testing.T) {
			w := newWebTest(t, web.New())
			running, finish := make(chan bool), make(chan bool)
			w.must(w.srv.RegisterFunc("Text.Wait", func(string) string {
				running <- true
				<-finish
				return "done"
			}))
			c := w.h1
			if version == "HTTP/2.0" {
				c = w.h2
			}
			answered := make(chan answer, 1)
			go func() { answered <- w.do(c, "POST /Text/Wait", asJSON, `""`) }()
			<-running
			shut := make(chan error, 1)
			go func() { shut <- w.srv.Shutdown(t.Context()) }()
			<-w.srv.Draining()
			finish <- true
			if a := <-answered; a.Body != `"done"` || a.Proto != version {
				t.Error(a)
			}
			if err := <-shut; err != nil {
				t.Error(err)
			}
		})
	}
}

// A handler mounted on the port makes calls like all others.
func TestMountedHandler(t *testing.T) {
	mine := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		c := web.Conn(r.Context())
		done := make(chan error, 1)
		b := &plain{said: r.FormValue("s")}
		c.Go(r.Context(), &tandem.Call{Method: "Text.Upper", Codec: "text", Metadata: web.Metadata(r.Header), Body: b}, func(err error) { done <- err })
		_, _ = fmt.Fprint(rw, b.result, <-done)
	})
	var seen tandem.Metadata
	look := func(next tandem.Func) tandem.Func {
		return func(ctx context.Context, call *tandem.Call) error {
			seen = call.Metadata
			return next(ctx, call)
		}
	}
	w := newWebTest(t, web.New(web.WithHandler("GET /mine", mine), web.WithMaxHeader(1<<10), web.WithIdleTimeout(patience)), server.WithInterceptors(look))
	w.must(w.srv.RegisterFunc("Text.Upper", strings.ToUpper))
	if a := w.do(w.h1, "GET /mine?s=hello", "", ""); !strings.HasSuffix(a.Body, "<nil>") || seen.Get("user-agent") == "" {
		t.Error(a, seen)
	}
}

type plain struct{ said, result string }

func (p *plain) Decode(v any) error {
	*v.(*string) = p.said
	return nil
}

func (p *plain) Encode(v any) error {
	p.result = v.(string)
	return nil
}

func (*plain) Stream() tandem.MessageStream { return nil }

func upper(_ context.Context, s *text) (*text, error) {
	return &text{Value: strings.ToUpper(s.GetValue())}, nil
}
