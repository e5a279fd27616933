package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/server"
)

// trailing registers streams that end with a trailer.
func trailing(srv *server.Server) error {
	trail := func(ctx context.Context) {
		call := tandem.FromContext(ctx)
		call.Trailer = tandem.Metadata{"from": {fmt.Sprint("attempt ", call.Attempt)}}
	}
	return errors.Join(
		server.HandleStream(srv, "Trail.Good", func(ctx context.Context, s *tandem.Stream[int, int]) error {
			trail(ctx)
			return count(ctx, s)
		}),
		server.HandleStream(srv, "Trail.Bad", func(ctx context.Context, s *tandem.Stream[int, int]) error {
			trail(ctx)
			return errors.Join(count(ctx, s), tandem.Errorf(tandem.OutOfRange, "asked to"))
		}),
		server.HandleStream(srv, "Trail.Sum", func(ctx context.Context, s *tandem.Stream[int, int]) error {
			trail(ctx)
			return sum(ctx, s)
		}),
		server.HandleStream(srv, "Trail.BadSum", func(ctx context.Context, s *tandem.Stream[int, int]) error {
			trail(ctx)
			return errors.Join(sum(ctx, s), tandem.Errorf(tandem.OutOfRange, "asked to"))
		}))
}

// refuseFirst refuses first attempts of marked calls.
func refuseFirst(next tandem.Func) tandem.Func {
	return func(ctx context.Context, call *tandem.Call) error {
		if call.Attempt == 0 && call.Metadata.Get("refuse") != "" {
			call.Trailer = tandem.Metadata{"from": {"refusal"}}
			return tandem.Errorf(tandem.Unavailable, "not yet")
		}
		return next(ctx, call)
	}
}

// notes are the trailers that functions given to OnEnd have seen, of calls and of attempts.
// They have no lock: a receiver sees the end of a stream after those functions have run.
type notes []string

func (n *notes) take(what string) tandem.Interceptor {
	return func(next tandem.Func) tandem.Func {
		return func(ctx context.Context, call *tandem.Call) error {
			note := func(when string) func(error) {
				return func(error) { *n = append(*n, what+" "+when+": "+call.Trailer.Get("from")) }
			}
			call.OnEnd(note("before"))
			err := next(ctx, call)
			call.OnEnd(note("after"))
			return err
		}
	}
}

// seen returns the notes after all functions have seen the trailer.
func seen(trailer string) notes {
	return notes{"call after: " + trailer, "attempt after: " + trailer, "attempt before: " + trailer, "call before: " + trailer}
}

// failModes runs f with a client of each fail mode.
func failModes(t *testing.T, f func(t *testing.T, c *client.Client, n *notes)) {
	_, a := serve(t, trailing, server.WithInterceptors(refuseFirst))
	_, b := serve(t, trailing, server.WithInterceptors(refuseFirst))
	for name, mode := range map[string]tandem.FailMode{"failfast": client.Failfast, "failover": client.Failover, "failtry": client.Failtry} {
		t.Run(name, func(t *testing.T) {
			n := &notes{}
			f(t, dial(t, "static://"+a+","+b, client.WithFailMode(mode), client.WithAttempts(client.Attempts{Budget: &policy.Budget{Share: 1, PerSecond: 1000}}),
				client.WithInterceptors(n.take("call")), client.WithAttemptInterceptors(n.take("attempt"))), n)
		})
	}
}

// When a caller has received a stream to its end the trailer is set, and all functions given to
// OnEnd have run, once.
func TestTrailerOfStream(t *testing.T) {
	failModes(t, func(t *testing.T, c *client.Client, n *notes) {
		for i := range 50 {
			for method, end := range map[string]func(error) bool{
				"Trail.Good": func(err error) bool { return errors.Is(err, io.EOF) },
				"Trail.Bad":  func(err error) bool { return tandem.CodeOf(err) == tandem.OutOfRange },
			} {
				*n = nil
				var md tandem.Metadata
				s, err := client.ServerStream[int, int](t.Context(), c, method, &i, client.Trailer(&md))
				for err == nil {
					_, err = s.Recv()
				}
				if want := "attempt 0"; !end(err) || md.Get("from") != want || !slices.Equal(*n, seen(want)) {
					t.Fatalf("%s: %v, %v, %v", method, err, md, *n)
				}
				if _, err := s.Recv(); !end(err) || s.Close() != nil || len(*n) != 4 {
					t.Fatalf("%s, later: %v, %v", method, err, *n)
				}
			}
		}
	})
}

// A client stream ends with its response.
func TestTrailerOfClientStream(t *testing.T) {
	failModes(t, func(t *testing.T, c *client.Client, n *notes) {
		for range 50 {
			for method, code := range map[string]tandem.Code{"Trail.Sum": tandem.OK, "Trail.BadSum": tandem.OutOfRange} {
				*n = nil
				var md tandem.Metadata
				s, err := client.ClientStream[int, int](t.Context(), c, method, client.Trailer(&md))
				if err != nil {
					t.Fatal(err)
				}
				total, err := client.CloseAndRecv(s)
				if want := "attempt 0"; tandem.CodeOf(err) != code || (total == nil) != (err != nil) || md.Get("from") != want || !slices.Equal(*n, seen(want)) {
					t.Fatalf("%s: %v, %v, %v", method, err, md, *n)
				}
			}
		}
	})
}

// The trailer of a refused stream comes with the refusal; that of a stream that a further
// attempt opens is of that attempt.
func TestTrailerOfRefusedStream(t *testing.T) {
	failModes(t, func(t *testing.T, c *client.Client, n *notes) {
		var md tandem.Metadata
		s, err := client.ServerStream[int, int](t.Context(), c, "Trail.Good", new(int),
			client.Trailer(&md), client.Metadata("refuse", "yes"), client.Idempotent())
		if tandem.CodeOf(err) == tandem.Unavailable { // failfast
			if md.Get("from") != "refusal" || !slices.Equal(*n, seen("refusal")) {
				t.Errorf("%v, %v", md, *n)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
		want := slices.Concat(seen("refusal")[1:3], seen("attempt 1"))
		if md.Get("from") != "attempt 1" || !slices.Equal(*n, want) {
			t.Errorf("%v, %v", md, *n)
		}
	})
}
