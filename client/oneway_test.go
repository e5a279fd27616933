package client_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// The context of a one-way call ends with the connection and with the server, however the
// handler uses it.
func TestOneWayContextEnds(t *testing.T) {
	looks := map[string]func(ctx context.Context){
		"Done": func(ctx context.Context) { <-ctx.Done() },
		"Err": func(ctx context.Context) {
			for ctx.Err() == nil {
				time.Sleep(100 * time.Millisecond)
			}
		},
		"derived": func(ctx context.Context) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			<-ctx.Done()
		},
	}
	ends := map[string]func(c *client.Client, srv *server.Server) error{
		"with the client": func(c *client.Client, _ *server.Server) error { return c.Close() },
		"with the server": func(_ *client.Client, srv *server.Server) error { return srv.Close() },
	}
	for look, until := range looks {
		for name, end := range ends {
			for _, size := range []int{0, 100_000} { // a large one has a number for a while
				t.Run(fmt.Sprint(look, " ", name, " ", size), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { testOneWayContext(t, size, until, end) })
				})
			}
		}
	}
}

func testOneWayContext(t *testing.T, size int, until func(context.Context), end func(*client.Client, *server.Server) error) {
	started, ended := make(chan struct{}), make(chan error, 1)
	mem := transport.NewMemory()
	srv, _ := serveOn(t, mem, "a", func(srv *server.Server) error {
		return server.Handle(srv, "Test.Note", func(ctx context.Context, _ *[]byte) (*[]byte, error) {
			close(started)
			until(ctx)
			ended <- ctx.Err()
			return nil, nil
		})
	})
	c := dial(t, "mem://a", client.WithTransport("mem", mem), client.WithTimeout(0))
	if err := c.Notify(t.Context(), "Test.Note", make([]byte, size), client.Codec("raw")); err != nil {
		t.Fatal(err)
	}
	<-started
	time.Sleep(2 * time.Second)
	select {
	case err := <-ended:
		t.Fatalf("ended with nothing: %v", err)
	default:
	}
	start := time.Now()
	if err := end(c, srv); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) || time.Since(start) > time.Second {
		t.Errorf("ended with %v after %v", err, time.Since(start))
	}
}
