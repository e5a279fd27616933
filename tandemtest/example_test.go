package tandemtest_test

import (
	"context"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/tandemtest"
)

// Cart is a service that a user tests.
type Cart struct{}

func (Cart) Count(_ context.Context, user string) (int, error) { return len(user), nil }

func registerCart(s *server.Server) error { return s.Register(Cart{}) }

// A cart is counted although one of its two servers crashes: docs/howto/testing.md shows this test.
func TestCartSurvivesACrash(t *testing.T) {
	tandemtest.CheckLeaks(t)
	network := tandemtest.NewNetwork(t)
	first := network.Serve("cart", registerCart)
	network.Serve("cart", registerCart)
	c := network.Dial("cart", client.WithFailMode(client.Failover), client.WithTimeout(time.Second))

	first.Crash()
	for range 10 {
		n, err := client.Invoke[int](t.Context(), c, "Cart.Count", "ada", client.Idempotent())
		if err != nil || *n != 3 {
			t.Fatalf("count: %v", err)
		}
	}
}
