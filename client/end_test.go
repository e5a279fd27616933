package client_test

import (
	"context"
	"strings"
	"testing"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
)

// ends returns an option that sends each end of a call to told.
func ends() (opt tandem.CallOption, told chan error) {
	told = make(chan error, 10)
	return func(call *tandem.Call) { call.OnEnd(func(err error) { told <- err }) }, told
}

// A stream's call ends exactly once, with the stream's error, however the stream ends and
// whether or not the caller receives.
func TestStreamEndsItsCallOnce(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(c *client.Client, s *tandem.Stream[[]byte, []byte], cancel func()) error
		want tandem.Code
	}{
		"well":      {func(_ *client.Client, s *tandem.Stream[[]byte, []byte], _ func()) error { return s.CloseSend() }, tandem.OK},
		"by cancel": {func(_ *client.Client, _ *tandem.Stream[[]byte, []byte], cancel func()) error { cancel(); return nil }, tandem.Canceled},
		"by close":  {func(_ *client.Client, s *tandem.Stream[[]byte, []byte], _ func()) error { return s.Close() }, tandem.Canceled},
		"with the client": {
			func(c *client.Client, _ *tandem.Stream[[]byte, []byte], _ func()) error { return c.Close() }, tandem.Unavailable,
		},
		"with an error": {func(_ *client.Client, s *tandem.Stream[[]byte, []byte], _ func()) error {
			fail := []byte("fail")
			return s.Send(&fail)
		}, tandem.OutOfRange},
	} {
		t.Run(name, func(t *testing.T) {
			_, addr := serve(t, methods)
			for range 20 {
				cl := dial(t, "tcp://"+addr)
				ctx, cancel := context.WithCancel(t.Context())
				opt, told := ends()
				s, err := client.Stream[[]byte, []byte](ctx, cl, "Test.Talk", client.Codec("raw"), opt)
				if err != nil {
					t.Fatal(err)
				}
				if err := c.end(cl, s, cancel); err != nil {
					t.Error(err)
				}
				if err := <-told; tandem.CodeOf(err) != c.want {
					t.Errorf("ended with %v", err)
				}
				if _, err := s.Recv(); err == nil {
					t.Error("a message after the end")
				}
				cancel()
				if cl.Close(); len(told) > 0 {
					t.Errorf("ended again with %v", <-told)
				}
			}
		})
	}
}

// A message that can't be decoded does not end the stream.
func TestBadMessageDoesNotEndStream(t *testing.T) {
	_, addr := serve(t, methods)
	opt, told := ends()
	s, err := dial(t, "tcp://"+addr).OpenStream(t.Context(), "Test.Talk", client.Codec("raw"), opt)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []string{"a", "b"} {
		if err := s.SendMsg([]byte(m)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.RecvMsg(new(chan int)); tandem.CodeOf(err) != tandem.InvalidArgument {
		t.Errorf("got %v", err)
	}
	var got []byte
	if err := s.RecvMsg(&got); err != nil || string(got) != "b" || len(told) > 0 {
		t.Errorf("got %q, %v, %d ends", got, err, len(told))
	}
	if err := s.Close(); err != nil || tandem.CodeOf(<-told) != tandem.Canceled {
		t.Error("not closed")
	}
}

// The call of a stream that could not be opened ends, too, whatever the reason. A stream that
// an interceptor refuses after it was opened is closed.
func TestStreamThatDoesNotOpenEndsItsCall(t *testing.T) {
	released := make(chan struct{}, 1)
	_, addr := serve(t, func(srv *server.Server) error {
		return server.HandleStream(srv, "Test.Hold", func(ctx context.Context, _ *tandem.Stream[int, int]) error {
			<-ctx.Done()
			released <- struct{}{}
			return nil
		})
	})
	answer := func(tandem.Func) tandem.Func { return func(context.Context, *tandem.Call) error { return nil } }
	refuse := func(next tandem.Func) tandem.Func {
		return func(ctx context.Context, call *tandem.Call) error {
			if err := next(ctx, call); err != nil {
				return err
			}
			return tandem.Errorf(tandem.PermissionDenied, "on second thoughts")
		}
	}
	for name, c := range map[string]struct {
		interceptors []tandem.Interceptor
		codec        string
		want         tandem.Code
	}{
		"no such codec":          {nil, "none", tandem.Unimplemented},
		"an interceptor answers": {[]tandem.Interceptor{answer}, "raw", tandem.Internal},
		"an interceptor refuses": {[]tandem.Interceptor{refuse}, "raw", tandem.PermissionDenied},
	} {
		opt, told := ends()
		cl := dial(t, "tcp://"+addr, client.WithInterceptors(c.interceptors...))
		_, err := cl.OpenStream(t.Context(), "Test.Hold", client.Codec(c.codec), opt)
		if tandem.CodeOf(err) != c.want || len(told) != 1 || tandem.CodeOf(<-told) != c.want {
			t.Errorf("%s: got %v", name, err)
		}
	}
	<-released
}

// A client encodes the message before the chain: another Body is refused, with an error that
// says so.
func TestClientKeepsTheBody(t *testing.T) {
	_, addr := serve(t, methods)
	c := dial(t, "tcp://"+addr, client.WithInterceptors(func(next tandem.Func) tandem.Func {
		return func(ctx context.Context, call *tandem.Call) error {
			call.Body = struct{ tandem.Body }{call.Body}
			return next(ctx, call)
		}
	}))
	var r Reply
	err := c.Call(t.Context(), "Arith.Mul", &Args{2, 3}, &r)
	wantRefusal(t, err, "call of Arith.Mul", "must leave the Body")
	_, err = c.OpenStream(t.Context(), "Test.Talk")
	wantRefusal(t, err, "call of Test.Talk", "must leave the Body")
}

// wantRefusal checks that an error is of this side and contains all of what.
func wantRefusal(t *testing.T, err error, what ...string) {
	t.Helper()
	if err == nil || tandem.MayHaveExecuted(err) {
		t.Fatalf("got %v", err)
	}
	for _, w := range what {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}
