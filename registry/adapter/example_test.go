package adapter_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/adapter"
)

// An outage leaves the list as it is; instances that vanish together become suspects.
func ExampleKeeper() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	m := registry.NewMemory()
	entry, _ := m.Register(ctx, tandem.Instance{
		ID:        "one",
		Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: "127.0.0.1:8972"}},
	})
	steps := []func(){
		func() { m.Fail(errors.New("connection refused")) },
		func() { m.Fail(nil) },
		func() { entry.Close() },
		cancel,
	}
	var keeper adapter.Keeper
	err := keeper.Watch(ctx, m, registry.Target{}, func(v adapter.View) {
		for _, in := range v.Instances {
			fmt.Printf("%s suspect=%v stale=%v\n", in.ID, v.Suspect[in.ID], v.Stale)
		}
		steps[0]()
		steps = steps[1:]
	})
	fmt.Println(err)
	// Output:
	// one suspect=false stale=<nil>
	// one suspect=false stale=connection refused
	// one suspect=false stale=<nil>
	// one suspect=true stale=<nil>
	// context canceled
}

// A resolver may read as often as it likes; the Feed delivers only changes.
func ExampleFeed() {
	feed := adapter.NewFeed(func(s registry.Snapshot) {
		fmt.Println(s.Revision, len(s.Instances), s.Err)
	})
	list := []tandem.Instance{{ID: "one"}}
	feed.List(list)
	feed.List(list)
	feed.Fail(errors.New("connection refused"))
	feed.List(list)
	feed.List(nil)
	// Output:
	// 1 1 <nil>
	// 1 0 connection refused
	// 1 1 <nil>
	// 2 0 <nil>
}
