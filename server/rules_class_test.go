package server_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
)

// Under overload a call has the class of its method's rule, whatever it asks for, and by whichever
// name it comes.
func TestARuleSetsTheClass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var order []string
		o := newOverloaded(t, server.WithTrustedCriticality(func(*tandem.Peer) bool { return true }), server.WithRules(server.Rules{
			First: rulesOf(t, `{"kind": "server", "methods": {"Test.Batch": {"criticality": "sheddable"}, "Test.Pay": {"criticality": "critical-plus"}}}`),
		}))
		for _, name := range []string{"Test.Batch", "Test.Pay", "Test.Plain"} {
			o.must(server.Handle(o.srv, name, func(_ context.Context, b *[]byte) (*[]byte, error) {
				mu.Lock()
				defer mu.Unlock()
				order = append(order, string(*b))
				return b, nil
			}))
		}
		o.must(o.srv.Alias("Other.Batch", "Test.Batch"))
		var all sync.WaitGroup
		for i, c := range []struct{ method, what string }{{"Other.Batch", "batch"}, {"Test.Plain", "plain"}, {"Test.Pay", "pay"}} {
			all.Go(func() {
				msg := []byte(c.what)
				if err := o.client.Call(t.Context(), c.method, &msg, &[]byte{}, client.Criticality(tandem.Critical)); err != nil {
					t.Errorf("%s: %v", c.what, err)
				}
			})
			o.wantWaiting(i + 1)
		}
		for o.gate.State().Waiting > 0 {
			o.release <- true
			synctest.Wait()
		}
		all.Wait()
		if want := []string{"pay", "plain", "batch"}; !slices.Equal(order, want) {
			t.Errorf("served %v, want %v", order, want)
		}
		o.finish()
	})
}
