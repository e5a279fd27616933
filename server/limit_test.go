package server_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/internal/session"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
	"github.com/tandem-rpc/tandem/wire"
)

// A response reports how busy the server is, not counting the call that it answers.
func TestLoadReport(t *testing.T) {
	for name, c := range map[string]struct {
		limit  []server.Option
		method []server.MethodOption
		want   wire.Load
	}{
		"no limit":           {want: wire.Load{InFlight: 3}},
		"half of the limit":  {limit: []server.Option{server.WithMaxConcurrency(6, 0)}, want: wire.Load{InFlight: 3, Utilization: 50}},
		"all, when refusing": {limit: []server.Option{server.WithMaxConcurrency(3, 0)}, want: wire.Load{InFlight: 3, Utilization: 100}},
		"a method's limit":   {method: []server.MethodOption{server.MethodConcurrency(1, 2)}, want: wire.Load{InFlight: 1, Queued: 2}},
		// Calls that wait for their method have passed the server's limit.
		"both limits": {
			limit:  []server.Option{server.WithMaxConcurrency(4, 0)},
			method: []server.MethodOption{server.MethodConcurrency(1, 2)},
			want:   wire.Load{InFlight: 1, Queued: 2, Utilization: 75},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := server.New(c.limit...)
				err := errors.Join(server.Handle(srv, "Test.Hold", hold, c.method...), server.Handle(srv, "Test.Nop", nop))
				if err != nil {
					t.Fatal(err)
				}
				network := transport.NewMemory()
				serve(t, srv, network, "a")
				low := connect(t, network, "a")
				for range 3 {
					go low.load("Test.Hold")
				}
				time.Sleep(time.Second) // until they hold
				if got, ok := low.load("Test.Nop"); !ok || got != c.want {
					t.Errorf("got %+v, %v, want %+v", got, ok, c.want)
				}
			})
		})
	}
}

func hold(ctx context.Context, _ *[]byte) (*[]byte, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func nop(_ context.Context, in *[]byte) (*[]byte, error) { return in, nil }

// A lowCaller calls a server below a client, which keeps load reports to itself.
type lowCaller struct {
	env *session.Env
	ses *session.Session
}

func connect(t *testing.T, network tandem.Transport, address string) lowCaller {
	t.Helper()
	env := session.NewEnv(session.Config{Settings: wire.DefaultSettings(), Codecs: []tandem.Codec{codec.Raw()}})
	conn, err := network.Dial(context.Background(), address)
	if err != nil {
		t.Fatal(err)
	}
	ses, err := env.Connect(context.Background(), conn, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ses.Close()
		env.Close(time.Second)
	})
	return lowCaller{env, ses}
}

// load makes a call and returns the load that its response reports, even if the call was
// refused.
func (c lowCaller) load(method string) (load wire.Load, ok bool) {
	p := c.env.NewPending()
	defer p.Release()
	p.Method, p.Codec = method, "raw"
	_ = c.ses.Do(context.Background(), p)
	return p.Load, p.HasLoad
}
