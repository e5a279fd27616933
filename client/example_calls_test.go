package client_test

import (
	"context"
	"fmt"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
)

// Several calls share a channel, which delivers them in the order in which they end.
func ExamplePending() {
	c, stop := one(func(_ context.Context, n *int) (*int, error) {
		square := *n * *n
		return &square, nil
	})
	defer stop()
	done := make(chan *client.Pending, 3) // with room for all
	for n := range 3 {
		c.Go(context.Background(), "It.Does", n, new(int), done)
	}
	for range 3 {
		call := <-done
		fmt.Println(call.Args, *call.Reply.(*int), call.Error)
	}
	// Unordered output:
	// 0 0 <nil>
	// 1 1 <nil>
	// 2 4 <nil>
}

// A stream lives as long as its context, and holds messages of any type.
func ExampleClient_OpenStream() {
	network, stop := ready()
	defer stop()
	c, err := client.Dial("mem://a", client.WithTransport("mem", network))
	check(err)
	defer c.Close()
	ctx, cancel := context.WithCancel(context.Background())
	s, err := c.OpenStream(ctx, "Text.Join")
	check(err)
	defer s.Close()
	check(s.SendMsg("one"))
	check(s.SendMsg("two"))
	cancel() // the caller gives up
	var text string
	fmt.Println(tandem.CodeOf(s.RecvMsg(&text)))
	// Output: canceled
}

// A call that names an instance goes there or fails, for example to ask each instance.
func ExampleInstance() {
	network, stop := ready()
	defer stop()
	c, err := client.Dial("static://a,b?transport=mem", client.WithTransport("mem", network))
	check(err)
	defer c.Close()
	for _, id := range []string{"mem://a", "mem://b", "mem://c"} {
		var name string
		err := c.Call(context.Background(), "Server.Name", "", &name, client.Instance(id))
		fmt.Printf("%s %q %v\n", id, name, err)
	}
	// Output:
	// mem://a "a" <nil>
	// mem://b "b" <nil>
	// mem://c "" unavailable: no instance "mem://c" in static://a,b?transport=mem
}

// A call may have another fail mode than the client's. This one makes further attempts only
// while the caller waits.
func ExampleFailMode() {
	c, stop := one(func(ctx context.Context, _ *string) (*string, error) {
		if tandem.FromContext(ctx).Attempt == 0 {
			return nil, tandem.Errorf(tandem.Unavailable, "just starting")
		}
		answer := "here you are"
		return &answer, nil
	}, client.WithFailMode(client.Failover))
	defer stop()
	for _, mode := range []tandem.FailMode{tandem.FailDefault, client.Failfast} {
		var answer string
		err := c.Call(context.Background(), "It.Does", "", &answer, client.Idempotent(), client.FailMode(mode))
		fmt.Printf("%q %v\n", answer, err)
	}
	// Output:
	// "here you are" <nil>
	// "" unavailable: just starting
}
