package web_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
)

// streamingClients are the options of clients that have bidirectional streams.
var streamingClients = map[string][]connect.ClientOption{"connect": nil, "grpc": {connect.WithGRPC()}, "grpc-web": {connect.WithGRPCWeb()}}

// waiting returns a method that receives from a client that sends nothing, and reports the
// errors to ended.
func waiting(ended chan<- error) func(context.Context, *tandem.Stream[number, number]) error {
	return func(_ context.Context, s *tandem.Stream[number, number]) error {
		_, err := s.Recv()
		<-s.Context().Done()
		again := s.Send(&number{})
		ended <- err
		ended <- s.Context().Err()
		ended <- again
		return err
	}
}

// A stream whose client sends nothing ends at the deadline, also if it is the server's or
// the method's, which the client does not know.
func TestStreamsEndAtTheDeadline(t *testing.T) {
	for name, c := range map[string]struct {
		server []server.Option
		method []server.MethodOption
		client time.Duration
	}{
		"server": {server: []server.Option{server.WithTimeout(time.Second)}},
		"method": {method: []server.MethodOption{server.MethodTimeout(time.Second)}},
		"both":   {server: []server.Option{server.WithTimeout(time.Minute)}, method: []server.MethodOption{server.MethodTimeout(time.Second)}, client: 10 * time.Second},
	} {
		for protocol, opts := range streamingClients {
			t.Run(name+" "+protocol, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWebTest(t, web.New(), c.server...)
					ended := make(chan error, 3)
					w.must(server.HandleStream(w.srv, "Numbers.Wait", waiting(ended), c.method...))
					ctx, cancel := context.WithTimeout(t.Context(), max(c.client, patience))
					defer cancel()
					start := time.Now()
					s := newClient[number, number](w.h2, "Numbers/Wait", opts...).CallBidiStream(ctx)
					w.must(s.Send(nil))
					if m, err := s.Receive(); connect.CodeOf(err) != connect.CodeDeadlineExceeded || time.Since(start) != time.Second {
						t.Errorf("%v, %v after %v", m, err, time.Since(start))
					}
					for range cap(ended) {
						if err := <-ended; tandem.CodeOf(err) != tandem.DeadlineExceeded {
							t.Errorf("in the method: %v", err)
						}
					}
					_ = errors.Join(s.CloseRequest(), s.CloseResponse())
				})
			})
		}
	}
}

// So does a stream over HTTP/1.1 whose client has begun a message.
func TestStreamsEndAtTheDeadlineOverHTTP1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWebTest(t, web.New(), server.WithTimeout(time.Second))
		ended := make(chan error, 3)
		w.must(server.HandleStream(w.srv, "Numbers.Wait", waiting(ended)))
		body, write := io.Pipe()
		go func() { _, _ = io.WriteString(write, "\x00\x00\x00") }()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://tandem.test/Numbers/Wait", body)
		w.must(err)
		req.Header.Set("Content-Type", "application/connect+proto")
		start := time.Now()
		res, err := w.h1.Do(req)
		w.must(err)
		took := time.Since(start)
		b, err := io.ReadAll(res.Body)
		if !strings.Contains(string(b), "deadline_exceeded") || took != time.Second {
			t.Errorf("%q, %v after %v", b, err, took)
		}
		w.must(errors.Join(write.Close(), res.Body.Close()))
		if err := <-ended; tandem.CodeOf(err) != tandem.DeadlineExceeded {
			t.Errorf("in the method: %v", err)
		}
	})
}

// A method that sends to a client that does not read returns a stall timeout after its
// deadline.
func TestSendingEndsAfterTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWebTest(t, web.New(), server.WithTimeout(time.Second), server.WithStallTimeout(2*time.Second))
		ended := make(chan error, 1)
		w.must(server.HandleStream(w.srv, "Numbers.Flood", func(_ context.Context, s *tandem.Stream[text, text]) error {
			for {
				if err := s.Send(&text{Value: strings.Repeat("x", 64<<10)}); err != nil {
					ended <- err
					return err
				}
			}
		}))
		start := time.Now()
		s := newClient[text, text](w.h2, "Numbers/Flood", connect.WithGRPC(), connect.WithAcceptCompression("gzip", nil, nil)).CallBidiStream(t.Context())
		w.must(s.Send(nil))
		if err := <-ended; tandem.CodeOf(err) != tandem.DeadlineExceeded || time.Since(start) != 3*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		_ = errors.Join(s.CloseRequest(), s.CloseResponse())
	})
}
