package honestcalls_test

import (
	"context"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/honestcalls"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// counting is a test that may fail.
type counting struct {
	testing.TB

	failed *atomic.Int64
}

func (c counting) Errorf(string, ...any) { c.failed.Add(1) }

// Each kind of call is made, and a call that fails makes the test fail.
func TestBeside(t *testing.T) {
	for name, c := range map[string]struct {
		spoils func(tandem.Call) bool
		failed int64
	}{
		"none":   {func(tandem.Call) bool { return false }, 0},
		"native": {func(call tandem.Call) bool { return call.Peer.Protocol == "tandem" }, 2},
		"gRPC":   {func(call tandem.Call) bool { return call.Peer.Protocol == "grpc" }, 2},
		"HTTP":   {func(call tandem.Call) bool { return call.Peer.Protocol != "tandem" && call.Peer.Protocol != "grpc" }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			mem := transport.NewMemory()
			ln, err := mem.Listen(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			honestcalls.Serve(t, ln, server.WithProtocols(web.New()), server.WithInterceptors(func(next tandem.Func) tandem.Func {
				return func(ctx context.Context, call *tandem.Call) error {
					if c.spoils(*call) {
						return tandem.Errorf(tandem.Internal, "spoiled")
					}
					return next(ctx, call)
				}
			}))
			attacked := false
			var failed atomic.Int64
			honestcalls.Beside(counting{t, &failed}, mem, "a", func() { attacked = true })
			if !attacked || failed.Load() != c.failed {
				t.Errorf("attacked: %v; %d calls failed, want %d", attacked, failed.Load(), c.failed)
			}
		})
	}
}
