package all_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/admin"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/protocol/all"
	"github.com/tandem-rpc/tandem/server"
)

// The admin API is ordinary methods: clients of every protocol reach it, and those that have
// streams can tap.
func TestAdminOnEveryProtocol(t *testing.T) {
	a := admin.New()
	srv := server.New(server.WithProtocols(all.New()...), server.WithPlugins(a))
	err := errors.Join(a.Register(srv), server.Handle(srv, "Text.Same", func(_ context.Context, s *string) (*string, error) { return s, nil }))
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	t.Cleanup(func() {
		_ = srv.Close()
		<-served
	})
	for i, scheme := range []string{"tcp", "grpc", "connect", "jsonrpc", "jsonrpc+http", "rpcx", "netrpc"} {
		t.Run(scheme, func(t *testing.T) {
			opts := []client.Option{client.WithProtocols(all.Clients()...), client.WithTimeout(10 * time.Second)}
			for _, p := range all.Clients() {
				if p.Name() == scheme {
					opts = append(opts, client.WithCodec(plain(p)))
				}
			}
			c, err := client.Dial(scheme+"://"+ln.Addr().String(), opts...)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			if err := c.Call(t.Context(), "Text.Same", "x", nil); err != nil {
				t.Fatal(err)
			}
			m, err := client.Invoke[admin.Methods](t.Context(), c, admin.Service+".Methods", admin.MethodsRequest{})
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range m.Methods {
				if f.Method == "Text.Same" && f.Calls != uint64(i)+1 {
					t.Errorf("%d calls, want %d", f.Calls, i+1)
				}
			}
			if scheme == "tcp" || scheme == "grpc" {
				tapOnce(t, c)
			}
		})
	}
}

// tapOnce taps the server until it sees one event, of a call that changes nothing that is counted.
func tapOnce(t *testing.T, c *client.Client) {
	s, err := c.OpenStream(t.Context(), admin.Service+".Tap")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.SendMsg(admin.TapRequest{Method: "No.*", For: 5 * time.Second}), s.CloseSend()); err != nil {
		t.Fatal(err)
	}
	seen := make(chan error, 1)
	go func() {
		var e admin.TapEvent
		err := s.RecvMsg(&e)
		if err == nil && e.Code != "unimplemented" {
			err = errors.New("the event has the code " + e.Code)
		}
		seen <- errors.Join(err, s.Close())
	}()
	for { // until the tap has begun
		_ = c.Call(t.Context(), "No.Such", "x", nil)
		select {
		case err := <-seen:
			if err != nil && !errors.Is(err, io.EOF) {
				t.Error(err)
			}
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}
