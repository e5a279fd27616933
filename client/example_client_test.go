package client_test

import (
	"context"
	"fmt"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
)

// Shop hides a remote shop from the rest of a program behind Go methods: names, options and
// errors of the calls are in one place.
type Shop struct{ rpc *client.Client }

// Price returns what an item costs.
func (s *Shop) Price(ctx context.Context, item string) (int, error) {
	price, err := client.Invoke[int](ctx, s.rpc, "It.Does", item, client.Idempotent())
	switch tandem.CodeOf(err) {
	case tandem.OK:
		return *price, nil
	case tandem.NotFound:
		return 0, fmt.Errorf("%q is not for sale", item)
	}
	return 0, fmt.Errorf("the shop is closed: %w", err)
}

func ExampleClient() {
	c, stop := one(func(_ context.Context, item *string) (*int, error) {
		if *item != "tea" {
			return nil, tandem.Errorf(tandem.NotFound, "no %s", *item)
		}
		price := 3
		return &price, nil
	})
	defer stop()
	shop := &Shop{rpc: c}
	fmt.Println(shop.Price(context.Background(), "tea"))
	fmt.Println(shop.Price(context.Background(), "milk"))
	// Output:
	// 3 <nil>
	// 0 "milk" is not for sale
}
