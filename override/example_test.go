package override_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/override"
	"github.com/tandem-rpc/tandem/registry"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// One of two instances is disabled; to disable the other one, too, is refused.
func Example() {
	ctx := context.Background()
	r := registry.NewMemory()
	for _, id := range []string{"cart-1", "cart-2"} {
		_, err := r.Register(ctx, tandem.Instance{ID: id, Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: id + ":8972"}}})
		check(err)
	}
	target, err := registry.ParseTarget("memory://Cart")
	check(err)
	editor, err := override.NewEditor(r, target)
	check(err)

	_, err = editor.Set(ctx, override.Request{By: "ann", Why: "the disk is full"}, override.Override{Instance: "cart-1", State: override.Disabled})
	check(err)
	_, err = editor.Set(ctx, override.Request{By: "bob"}, override.Override{Instance: "cart-2", State: override.Draining})
	fmt.Println("refused:", errors.Is(err, override.ErrEmpty))

	set, err := editor.Read(ctx)
	check(err)
	list, err := editor.Instances(ctx)
	check(err)
	effect := set.Apply(list, time.Now())
	fmt.Println("gets calls:", effect.Enabled[0].ID)
	for id, why := range effect.Withheld {
		fmt.Println(id, "is", why.String())
	}
	// Output:
	// refused: true
	// gets calls: cart-2
	// cart-1 is disabled by ann: the disk is full
}
