//go:build linux && !386 && !s390x

package all_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/protocol/all"
	"github.com/tandem-rpc/tandem/server"
)

// A server detects requests that wait in the kernel's receive buffer. Where many calls
// share a connection that is the only sign of an overload.
func TestUnreadRequestsAreSeen(t *testing.T) {
	for _, scheme := range []string{"tcp", "rpcx", "jsonrpc", "netrpc"} {
		t.Run(scheme, func(t *testing.T) {
			opts := []server.Option{
				server.WithProtocols(all.New()...),
				server.WithOverloadControl(server.OverloadConfig{Busy: 1e9, Engage: 1e-4, CalmAfter: 1e9}), // processors give no sign of overload
			}
			if scheme != "tcp" { // tandem's own readers start at most 64 calls
				opts = append(opts, server.WithMaxOpenCalls(64))
			}
			srv := server.New(opts...)
			err := srv.RegisterFunc("Test.Spin", func(s string) int {
				for end := time.Now().Add(time.Millisecond); time.Now().Before(end); {
				}
				return len(s)
			})
			if err != nil {
				t.Fatal(err)
			}
			c, err := client.Dial(scheme+"://"+listening(t, srv), client.WithProtocols(all.Clients()...), client.WithThrottle(nil))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			argument := strings.Repeat("x", 2<<10)
			for !srv.Overload().Guarding {
				var calls sync.WaitGroup
				for range 500 {
					calls.Go(func() { _ = c.Call(ctx, "Test.Spin", argument, new(int)) })
				}
				calls.Wait()
				if err := ctx.Err(); err != nil {
					t.Fatal(errors.Join(errors.New("the server does not guard"), err))
				}
			}
		})
	}
}
