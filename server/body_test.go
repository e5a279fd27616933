package server_test

import (
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// loud is a Body that changes what a handler receives and sends.
type loud struct{ tandem.Body }

func (l loud) Decode(v any) error { return heard(l.Body.Decode(v), v) }

func (l loud) Encode(v any) error { return l.Body.Encode(*v.(*string) + "!") }

func (l loud) Stream() tandem.MessageStream { return loudStream{l.Body.Stream()} }

type loudStream struct{ tandem.MessageStream }

func (l loudStream) RecvMsg(v any) error { return heard(l.MessageStream.RecvMsg(v), v) }

func (l loudStream) SendMsg(v any) error { return l.MessageStream.SendMsg(*v.(*string) + "!") }

func heard(err error, v any) error {
	if s, ok := v.(*string); ok && err == nil {
		*s = strings.ToUpper(*s)
	}
	return err
}

func speakLoud(next tandem.Func) tandem.Func {
	return func(ctx context.Context, call *tandem.Call) error {
		call.Body = loud{call.Body}
		return next(ctx, call)
	}
}

// Talker is a service for reflection.
type Talker struct{}

func (Talker) Repeat(s *string, reply *string) error { *reply = *s; return nil }

func (Talker) Chat(s *tandem.Stream[string, string]) error { return chat(context.Background(), s) }

func repeat(_ context.Context, s *string) (*string, error) { return s, nil }

func chat(_ context.Context, s *tandem.Stream[string, string]) error {
	for m, err := range s.All() {
		if err != nil {
			return err
		}
		if err := s.Send(m); err != nil {
			return err
		}
	}
	return nil
}

// A handler works with the Body that an interceptor has put in place of the session's, and the
// session still finds its own.
func TestReplacedBody(t *testing.T) {
	srv := server.New(server.WithInterceptors(speakLoud), server.WithLogger(quiet))
	if err := errors.Join(
		srv.RegisterName("Reflected", Talker{}),
		server.Handle(srv, "Typed.Repeat", repeat),
		server.HandleStream(srv, "Typed.Chat", chat),
		server.Handle(srv, "Test.Fail", func(context.Context, *string) (*string, error) {
			return nil, tandem.Errorf(tandem.OutOfRange, "asked to")
		}),
		server.Handle(srv, "Test.Panic", func(context.Context, *string) (*string, error) { panic("asked to") }),
		server.Handle(srv, "Test.Exit", func(context.Context, *string) (*string, error) { runtime.Goexit(); return nil, nil }),
	); err != nil {
		t.Fatal(err)
	}
	network := transport.NewMemory()
	serve(t, srv, network, "a")
	c, err := client.Dial("mem://a", client.WithTransport("mem", network))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := context.Background()
	for _, service := range []string{"Typed", "Reflected"} {
		got, err := client.Invoke[string](ctx, c, service+".Repeat", "hello")
		if err != nil || *got != "HELLO!" {
			t.Errorf("%s: %q, %v", service, *got, err)
		}
		question := "hello"
		s, err := client.ServerStream[string, string](ctx, c, service+".Chat", &question)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.Recv(); err != nil || *got != "HELLO!" {
			t.Errorf("%s: stream: %q, %v", service, *got, err)
		}
		if _, err := s.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: the stream's end: %v", service, err)
		}
	}
	for method, code := range map[string]tandem.Code{
		"Test.Fail": tandem.OutOfRange, "Test.Panic": tandem.Internal, "Test.Exit": tandem.Internal,
	} {
		if err := c.Call(ctx, method, "hello", nil); tandem.CodeOf(err) != code {
			t.Errorf("%s: %v", method, err)
		}
	}
}

// A function of OnEnd may end the goroutine: the call still has a response, and nothing of it
// is left.
func TestExitAtTheEnd(t *testing.T) {
	srv := server.New(server.WithLogger(quiet))
	if err := server.Handle(srv, "Test.Leave", func(ctx context.Context, in *string) (*string, error) {
		tandem.FromContext(ctx).OnEnd(func(error) { runtime.Goexit() })
		return in, nil
	}); err != nil {
		t.Fatal(err)
	}
	network := transport.NewMemory()
	serve(t, srv, network, "a")
	c, err := client.Dial("mem://a", client.WithTransport("mem", network))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for range 3 {
		if err := c.Call(ctx, "Test.Leave", "x", nil); tandem.CodeOf(err) != tandem.Internal {
			t.Errorf("got %v, want an internal error", err)
		}
	}
	if err := srv.Shutdown(ctx); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
}
