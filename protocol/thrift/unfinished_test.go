package thrift_test

import (
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apache "github.com/apache/thrift/lib/go/thrift"

	"github.com/tandem-rpc/tandem/internal/honestcalls"
	"github.com/tandem-rpc/tandem/protocol/all"
	"github.com/tandem-rpc/tandem/protocol/thrift"
	"github.com/tandem-rpc/tandem/protocol/thrift/testdata/desk"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

const stall = 10 * time.Second

// newPort runs a server of every protocol in a synctest bubble.
func newPort(t *testing.T) (*server.Server, *transport.Memory) {
	t.Helper()
	mem := transport.NewMemory()
	ln, err := mem.Listen(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	srv := honestcalls.Serve(t, ln, server.WithProtocols(append(all.New(), thrift.New())...), server.WithStallTimeout(stall), server.WithLogger(slog.New(slog.DiscardHandler)))
	if err := srv.RegisterFunc("ping", func() {}); err != nil {
		t.Fatal(err)
	}
	return srv, mem
}

// sayTo writes to a new connection, and reads everything from it; ended is closed at its
// end.
func sayTo(t *testing.T, mem *transport.Memory, b []byte) (c net.Conn, ended <-chan struct{}) {
	t.Helper()
	c, err := mem.Dial(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = io.Copy(io.Discard, c)
	}()
	_, _ = c.Write(b) // the server may have closed it
	return c, over
}

// In no dialect does an unfinished request stay longer than the stall timeout, or affect
// other calls. Package all has this test for the other protocols.
func TestUnfinishedRequests(t *testing.T) {
	for dialect := range dialects {
		t.Run(dialect, func(t *testing.T) {
			request := said(t, dialect, "ping", apache.CALL, &desk.DeskPingArgs{})
			synctest.Test(t, func(t *testing.T) {
				_, mem := newPort(t)
				honestcalls.Beside(t, mem, "a", func() {
					var clients sync.WaitGroup
					for cut := 1; cut < len(request); cut++ {
						clients.Go(func() {
							began := time.Now()
							c, ended := sayTo(t, mem, request[:cut])
							patience := time.AfterFunc(2*stall, func() { _ = c.Close() })
							<-ended
							patience.Stop()
							if took := time.Since(began); took > stall+time.Second {
								t.Errorf("%d of %d bytes: closed after %v", cut, len(request), took)
							}
							_ = c.Close()
						})
					}
					clients.Wait()
				})
			})
		})
	}
}

// Connections without a running call do not delay Shutdown.
func TestShutdownWaitsForCallsOnly(t *testing.T) {
	for dialect := range dialects {
		request := said(t, dialect, "ping", apache.CALL, &desk.DeskPingArgs{})
		for cut := range len(request) + 1 {
			synctest.Test(t, func(t *testing.T) {
				srv, mem := newPort(t)
				c, ended := sayTo(t, mem, request[:cut])
				synctest.Wait()
				began := time.Now()
				if err := srv.Shutdown(t.Context()); err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took > 3*time.Second {
					t.Errorf("%s, %d of %d bytes: Shutdown took %v", dialect, cut, len(request), took)
				}
				_ = c.Close()
				<-ended
			})
		}
	}
}
