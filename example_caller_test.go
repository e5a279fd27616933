package tandem_test

import (
	"context"
	"fmt"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
)

// total takes a Caller: a client, a server's view of a connected client, or,
// in a test, a fake.
func total(ctx context.Context, c tandem.Caller, items ...string) (sum int, err error) {
	for _, item := range items {
		price, err := client.Invoke[int](ctx, c, "Shop.Price", item)
		if err != nil {
			return 0, err
		}
		sum += *price
	}
	return sum, nil
}

// prices is a Caller without a network.
type prices map[string]int

func (p prices) Call(_ context.Context, _ string, args, reply any, _ ...tandem.CallOption) error {
	price, ok := p[args.(string)]
	if !ok {
		return tandem.Errorf(tandem.NotFound, "there is no %s", args)
	}
	*reply.(*int) = price
	return nil
}

func (prices) OpenStream(context.Context, string, ...tandem.CallOption) (tandem.MessageStream, error) {
	return nil, tandem.Errorf(tandem.Unimplemented, "prices don't stream")
}

func ExampleCaller() {
	shop := prices{"tea": 3, "cake": 5}
	fmt.Println(total(context.Background(), shop, "tea", "cake"))
	fmt.Println(total(context.Background(), shop, "tea", "milk"))
	// Output:
	// 8 <nil>
	// 0 not found: there is no milk
}
