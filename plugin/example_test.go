package plugin_test

import (
	"context"
	"fmt"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/plugin"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// outcomes prints how calls ended, on both sides, and refuses those without a tenant.
type outcomes struct{}

func (outcomes) BeforeRequestHeader(_ context.Context, call *tandem.Call) error {
	if call.Metadata.Get("tenant") == "" {
		return tandem.Errorf(tandem.InvalidArgument, "name a tenant")
	}
	return nil
}

func (outcomes) AfterResponse(_ context.Context, call *tandem.Call, end tandem.Outcome) {
	fmt.Println("server:", call.Method, end.Code())
}

func (outcomes) AfterCall(_ context.Context, call *tandem.Call, end tandem.Outcome) {
	fmt.Println("client:", call.Method, end.Code())
}

func (outcomes) KeepsNothing() {}

// The compiler checks that the methods are those of the points.
var (
	_ plugin.BeforeRequestHeader = outcomes{}
	_ plugin.AfterResponse       = outcomes{}
	_ plugin.AfterCall           = outcomes{}
	_ plugin.KeepsNothing        = outcomes{}
)

// One value is a plugin of a server and of a client: each calls the points that it has.
func Example() {
	srv := server.New(server.WithPlugins(outcomes{}))
	_ = srv.RegisterFunc("Math.Half", func(n int) int { return n / 2 })
	network := transport.NewMemory()
	ln, _ := network.Listen(context.Background(), "math")
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	c, err := client.Dial("mem://math", client.WithTransport("mem", network), client.WithPlugins(outcomes{}))
	if err != nil {
		fmt.Println(err)
		return
	}
	var half int
	err = c.Call(context.Background(), "Math.Half", 6, &half)
	fmt.Println(half, err)
	err = c.Call(context.Background(), "Math.Half", 6, &half, client.Metadata("tenant", "ada"))
	fmt.Println(half, err)
	_, _ = c.Close(), srv.Close()
	<-served
	// Output:
	// server: Math.Half invalid argument
	// client: Math.Half invalid argument
	// 0 invalid argument: name a tenant
	// server: Math.Half ok
	// client: Math.Half ok
	// 3 <nil>
}
