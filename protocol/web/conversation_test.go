package web_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
)

// streamServer runs a connect-go server with streams, with HTTP/2 if http2 is set.
func streamServer(t *testing.T, http2 bool, ended chan error) (address string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/test.v1.Numbers/Count", connect.NewServerStreamHandler("/test.v1.Numbers/Count",
		func(_ context.Context, req *connect.Request[number], s *connect.ServerStream[number]) error {
			s.ResponseHeader().Set("Token", req.Header().Get("Authorization"))
			s.ResponseTrailer().Set("Last", "word")
			for i := range req.Msg.GetValue() {
				if err := s.Send(&number{Value: i}); err != nil {
					return err
				}
			}
			return nil
		}))
	mux.Handle("/test.v1.Numbers/Add", connect.NewClientStreamHandler("/test.v1.Numbers/Add",
		func(_ context.Context, s *connect.ClientStream[number]) (*connect.Response[number], error) {
			total := int64(0)
			for s.Receive() {
				total += s.Msg().GetValue()
			}
			return connect.NewResponse(&number{Value: total}), s.Err()
		}))
	mux.Handle("/test.v1.Numbers/Sum", connect.NewBidiStreamHandler("/test.v1.Numbers/Sum",
		func(_ context.Context, s *connect.BidiStream[number, number]) error { return sums(s) }))
	mux.Handle("/test.v1.Numbers/Wait", connect.NewBidiStreamHandler("/test.v1.Numbers/Wait",
		func(ctx context.Context, _ *connect.BidiStream[number, number]) error {
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return ctx.Err()
		}))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serveMux(t, ln, mux, http2)
	return ln.Addr().String()
}

func serveMux(t *testing.T, ln net.Listener, mux http.Handler, http2 bool) *http.Server {
	t.Helper()
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute, Protocols: new(http.Protocols)}
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetUnencryptedHTTP2(http2)
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(ln) }()
	t.Cleanup(func() {
		_ = srv.Close()
		<-ended
	})
	return srv
}

// sums answers each number with the sum so far, and fails at the end.
func sums(s *connect.BidiStream[number, number]) error {
	total := int64(0)
	for {
		m, err := s.Receive()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		total += m.GetValue()
		if err := s.Send(&number{Value: total}); err != nil {
			return err
		}
	}
	s.ResponseTrailer().Set("Last", "word")
	failure := connect.NewError(connect.CodeOutOfRange, fmt.Errorf("no more after %d", total))
	detail, err := connect.NewErrorDetail(&number{Value: total})
	if err != nil {
		return err
	}
	failure.AddDetail(detail)
	return failure
}

// Our client uses streams of each kind with a connect-go server, over gRPC and over
// Connect; over Connect with HTTP/1.1 only those in one direction.
func TestCarriesStreams(t *testing.T) {
	ended := make(chan error, 1)
	both, old := streamServer(t, true, ended), streamServer(t, false, ended)
	for name, c := range map[string]struct {
		target string
		both   bool
	}{
		"grpc":                {"grpc://" + both, true},
		"connect":             {"connect://" + both, true},
		"connect by HTTP/1.1": {"connect://" + old, false},
	} {
		t.Run(name, func(t *testing.T) {
			caller := calls(t, c.target)
			counts(t, caller)
			adds(t, caller)
			if c.both {
				talks(t, caller)
			}
		})
	}
}

func counts(t *testing.T, c *client.Client) {
	t.Helper()
	var back tandem.Metadata
	s, err := client.ServerStream[number, number](t.Context(), c, "test.v1.Numbers.Count", &number{Value: 1000},
		client.Metadata("authorization", "bearer x"), client.Trailer(&back))
	if err != nil {
		t.Fatal(err)
	}
	n := int64(0)
	for m, err := range s.All() {
		if err != nil || m.GetValue() != n {
			t.Fatalf("%v, %v after %d", m, err, n)
		}
		n++
	}
	if n != 1000 || back.Get("token") != "bearer x" || back.Get("last") != "word" {
		t.Errorf("%d messages and %v", n, back)
	}
}

func adds(t *testing.T, c *client.Client) {
	t.Helper()
	s, err := client.ClientStream[number, number](t.Context(), c, "test.v1.Numbers.Add")
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(1000) {
		if err := s.Send(&number{Value: i}); err != nil {
			t.Fatal(err)
		}
	}
	if m, err := client.CloseAndRecv(s); err != nil || m.GetValue() != 499500 {
		t.Errorf("%v, %v", m, err)
	}
}

func talks(t *testing.T, c *client.Client) {
	t.Helper()
	var back tandem.Metadata
	s, err := client.Stream[number, number](t.Context(), c, "test.v1.Numbers.Sum", client.Trailer(&back))
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(100) {
		if err := s.Send(&number{Value: i}); err != nil {
			t.Fatal(err)
		}
		if m, err := s.Recv(); err != nil || m.GetValue() != i*(i+1)/2 {
			t.Fatalf("%v, %v after %d", m, err, i)
		}
	}
	if err := s.CloseSend(); err != nil {
		t.Error(err)
	}
	_, err = s.Recv()
	e := tandem.AsError(err)
	if e == nil || e.Code != tandem.OutOfRange || e.Message != "no more after 4950" || !e.Remote || len(e.Details) != 1 || back.Get("last") != "word" {
		t.Errorf("%+v and %v", e, back)
	}
	<-s.Context().Done()
	if err := s.Send(&number{}); tandem.CodeOf(err) != tandem.OutOfRange {
		t.Errorf("sent to a stream that is over: %v", err)
	}
}
