package grpc

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
)

// serveTandem runs one of our servers until the test ends.
func serveTandem(t *testing.T, served *atomic.Int64) (srv *server.Server, address string) {
	t.Helper()
	srv = server.New(server.WithProtocols(web.New()))
	err := server.Handle(srv, "test.v1.Texts.Twice", func(_ context.Context, in *wrapperspb.StringValue) (*wrapperspb.StringValue, error) {
		served.Add(1)
		return wrapperspb.String(in.GetValue() + in.GetValue()), nil
	})
	ln, failed := net.Listen("tcp", "127.0.0.1:0")
	if err = errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.ServeListener(ln) }()
	t.Cleanup(func() {
		_ = srv.Close()
		<-ended
	})
	return srv, ln.Addr().String()
}

// No call of a grpc-go client is lost when our server drains under load.
func TestNoCallIsLostInADrain(t *testing.T) {
	const callers, before, after = 8, 200, 200
	var served [2]atomic.Int64
	old, oldAddress := serveTandem(t, &served[0])
	_, newAddress := serveTandem(t, &served[1])
	conn, err := grpc.NewClient("passthrough:///localhost", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, "tcp", oldAddress)
			if err != nil { // the server accepts no more connections
				c, err = new(net.Dialer).DialContext(ctx, "tcp", newAddress)
			}
			return c, err
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	call := func() error {
		out := new(wrapperspb.StringValue)
		err := conn.Invoke(ctx, "/test.v1.Texts/Twice", wrapperspb.String("ab"), out)
		if err == nil && out.GetValue() != "abab" {
			err = errors.New(out.GetValue())
		}
		return err
	}
	var callsMade sync.WaitGroup
	for range callers {
		callsMade.Go(func() {
			for served[1].Load() < after {
				if err := call(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for served[0].Load() < before {
		if err := call(); err != nil {
			t.Fatal(err)
		}
	}
	if err := old.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	callsMade.Wait()
	if served[0].Load() < before || served[1].Load() < after {
		t.Errorf("served %d and %d calls", served[0].Load(), served[1].Load())
	}
}
