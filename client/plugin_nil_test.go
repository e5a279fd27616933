package client_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// absentMinded returns nil at every point, of any error type, whatever its arguments are.
type absentMinded struct{ nothing error }

func (a absentMinded) BeforeCall(context.Context, *tandem.Call) error    { return nil }
func (a absentMinded) BeforeSelect(context.Context, *tandem.Call) error  { return nil }
func (a absentMinded) BeforeRequest(context.Context, *tandem.Call) error { return nil }

func (a absentMinded) AfterResponseHeader(context.Context, *tandem.Call, error) error {
	return a.nothing
}

func (a absentMinded) BeforeResponseBody(context.Context, *tandem.Call) error { return nil }

func (a absentMinded) AfterResponseBody(context.Context, *tandem.Call, any, error) error {
	return a.nothing
}

// The same on the server's side.

func (a absentMinded) BeforeRequestHeader(context.Context, *tandem.Call) error { return nil }
func (a absentMinded) AfterRequestHeader(context.Context, *tandem.Call) error  { return nil }
func (a absentMinded) BeforeRequestBody(context.Context, *tandem.Call) error   { return nil }

func (a absentMinded) AfterRequestBody(context.Context, *tandem.Call, any) error { return nil }

func (a absentMinded) BeforeResponse(context.Context, *tandem.Call, any, error) error {
	return a.nothing
}

// failing returns a client of a server whose methods fail, both with the plugins.
func failing(t *testing.T, p absentMinded) *client.Client {
	t.Helper()
	network := transport.NewMemory()
	full := tandem.Errorf(tandem.ResourceExhausted, "full")
	serveOn(t, network, "x", func(srv *server.Server) error {
		return errors.Join(
			server.Handle(srv, "Test.Full", func(context.Context, *string) (*string, error) { return nil, full }),
			server.Handle(srv, "Test.Number", func(context.Context, *string) (*int, error) { return new(int), nil }),
			server.HandleStream(srv, "Test.Short", func(_ context.Context, s *tandem.Stream[string, string]) error {
				return errors.Join(s.Send(new(string)), full)
			}))
	}, server.WithPlugins(p))
	return dial(t, "static://x?transport=mem", client.WithTransport("mem", network), client.WithPlugins(p))
}

// A plugin that returns nil leaves the error of a call as it is, at every point.
func TestPluginsThatReturnNilKeepErrors(t *testing.T) {
	for name, p := range map[string]absentMinded{"nil": {}, "nil *tandem.Error": {(*tandem.Error)(nil)}} {
		for method, want := range map[string]tandem.Code{
			"Test.Full": tandem.ResourceExhausted, "Test.Number": tandem.Internal, "Test.Absent": tandem.Unimplemented,
		} {
			t.Run(name+" "+method, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c, reply := failing(t, p), "stale"
					if err := c.Call(t.Context(), method, "", &reply); tandem.CodeOf(err) != want {
						t.Errorf("a call: %v with the reply %q, want %v", err, reply, want)
					}
					if _, err := c.OpenStream(t.Context(), "Test.Absent"); tandem.CodeOf(err) != tandem.Unimplemented {
						t.Errorf("a stream: %v", err)
					}
				})
			})
		}
	}
}

func TestPluginsThatReturnNilKeepErrorsOfStreams(t *testing.T) {
	for name, p := range map[string]absentMinded{"nil": {}, "nil *tandem.Error": {(*tandem.Error)(nil)}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := failing(t, p).OpenStream(t.Context(), "Test.Short")
				if err != nil {
					t.Fatal(err)
				}
				var m string
				if err := s.RecvMsg(&m); err != nil {
					t.Errorf("a message: %v", err)
				}
				if err := s.RecvMsg(&m); tandem.CodeOf(err) != tandem.ResourceExhausted {
					t.Errorf("the end: %v", err)
				}
			})
		})
	}
}

func TestPluginsThatReturnNilKeepErrorsOfConnecting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dial(t, "static://nowhere?transport=mem", client.WithTransport("mem", transport.NewMemory()), client.WithPlugins(absentMinded{}))
		reply := "stale"
		if err := c.Call(t.Context(), "Test.Do", "", &reply); tandem.CodeOf(err) != tandem.Unavailable || tandem.MayHaveExecuted(err) {
			t.Errorf("a call: %v with the reply %q", err, reply)
		}
		if err := c.Notify(t.Context(), "Test.Do", ""); tandem.CodeOf(err) != tandem.Unavailable {
			t.Errorf("a one-way call: %v", err)
		}
	})
}

// liar returns for every response that no handler ran.
type liar struct{}

func (liar) AfterResponseHeader(context.Context, *tandem.Call, error) error {
	return &tandem.Error{Code: tandem.Unavailable, Message: "a lie", NotExecuted: true}
}

// A plugin's error can't turn a call into one that was not executed.
func TestPluginsCannotChangeNotExecuted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, 2, well)
		c := cl.client(t, client.WithPlugins(liar{}), client.WithFailMode(client.Failover))
		if _, err := do(t, c); tandem.CodeOf(err) != tandem.Unavailable || !tandem.MayHaveExecuted(err) {
			t.Errorf("%+v", err)
		}
		if n := cl.total(); n != 1 {
			t.Errorf("it ran %d times", n)
		}
	})
}
