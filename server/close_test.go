package server_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

var quiet = slog.New(slog.DiscardHandler)

// Close waits five seconds in all for handlers that ignore their contexts: those that a reader
// runs, and those with a goroutine of their own.
func TestCloseWaitsFiveSecondsForAllHandlers(t *testing.T) {
	for name, c := range map[string]struct {
		unary, stream time.Duration // how long the handlers go on
		takes         time.Duration
		want          error
	}{
		"all return":        {2 * time.Second, 4 * time.Second, 4 * time.Second, nil},
		"a stream does not": {4 * time.Second, time.Hour, 5 * time.Second, server.ErrHandlersRunning},
		"a call does not":   {time.Hour, 4 * time.Second, 5 * time.Second, server.ErrHandlersRunning},
		"neither does":      {time.Hour, time.Hour, 5 * time.Second, server.ErrHandlersRunning},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := busyServer(t, c.unary, c.stream)
				start := time.Now()
				if err := srv.Close(); !errors.Is(err, c.want) || time.Since(start) != c.takes {
					t.Errorf("got %v after %v", err, time.Since(start))
				}
				time.Sleep(time.Hour)
				if err := srv.Close(); err != nil {
					t.Errorf("when all have returned: %v", err)
				}
			})
		})
	}
}

// busyServer returns a server with a running call and a running stream, whose handlers go on
// for so long after their contexts have ended.
func busyServer(t *testing.T, unary, stream time.Duration) *server.Server {
	t.Helper()
	srv := server.New(server.WithLogger(quiet))
	goOn := func(ctx context.Context, d time.Duration) error {
		<-ctx.Done()
		time.Sleep(d)
		return ctx.Err()
	}
	if err := errors.Join(
		server.Handle(srv, "Test.Call", func(ctx context.Context, _ *int) (*int, error) { return nil, goOn(ctx, unary) }),
		server.HandleStream(srv, "Test.Stream", func(ctx context.Context, _ *tandem.Stream[int, int]) error { return goOn(ctx, stream) }),
	); err != nil {
		t.Fatal(err)
	}
	network := transport.NewMemory()
	serve(t, srv, network, "a")
	c, err := client.Dial("mem://a", client.WithTransport("mem", network))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	c.Go(t.Context(), "Test.Call", 1, nil, nil, client.Timeout(time.Hour))
	if _, err := c.OpenStream(t.Context(), "Test.Stream"); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return srv
}
