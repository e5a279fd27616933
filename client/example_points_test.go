package client_test

import (
	"context"
	"fmt"
	"net"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/plugin"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// everywhere implements every point. Most plugins implement one or two.
type everywhere struct{}

func (everywhere) Connected(c net.Conn) (net.Conn, error) { return c, nil }

func (everywhere) KeepsNothing() {}

func (everywhere) BeforeCall(_ context.Context, call *tandem.Call) error {
	fmt.Println("before the call:", call.Method)
	call.SetMetadata("greeting", "hello")
	return nil
}

func (everywhere) Intercept(next tandem.Func) tandem.Func {
	return func(ctx context.Context, call *tandem.Call) error {
		fmt.Println("on the way out")
		return next(ctx, call)
	}
}

func (everywhere) InterceptAttempt(next tandem.Func) tandem.Func {
	return func(ctx context.Context, call *tandem.Call) error {
		fmt.Println("attempt", call.Attempt)
		return next(ctx, call)
	}
}

func (everywhere) BeforeSelect(context.Context, *tandem.Call) error {
	fmt.Println("before an instance is chosen")
	return nil
}

func (everywhere) BeforeRequest(_ context.Context, call *tandem.Call) error {
	fmt.Println("before the request to", call.Peer.Addr)
	return nil
}

func (everywhere) AfterRequest(_ context.Context, _ *tandem.Call, err error) {
	fmt.Println("after the request:", err)
}

func (everywhere) BeforeResponseHeader(context.Context, *tandem.Call) {
	fmt.Println("before the response's header")
}

func (everywhere) AfterResponseHeader(_ context.Context, _ *tandem.Call, err error) error {
	fmt.Println("after the response's header:", err)
	return err
}

func (everywhere) BeforeResponseBody(context.Context, *tandem.Call) error {
	fmt.Println("before the response's body")
	return nil
}

func (everywhere) AfterResponseBody(_ context.Context, _ *tandem.Call, reply any, err error) error {
	fmt.Println("after the response's body:", *reply.(*string))
	return err
}

func (everywhere) AfterCall(_ context.Context, _ *tandem.Call, end tandem.Outcome) {
	fmt.Println("after the call:", end.Code())
}

var _ = []any{
	plugin.Connected(everywhere{}), plugin.KeepsNothing(everywhere{}), plugin.BeforeCall(everywhere{}),
	plugin.Intercepts(everywhere{}), plugin.InterceptsAttempts(everywhere{}), plugin.BeforeSelect(everywhere{}), plugin.BeforeRequest(everywhere{}),
	plugin.AfterRequest(everywhere{}), plugin.BeforeResponseHeader(everywhere{}), plugin.AfterResponseHeader(everywhere{}),
	plugin.BeforeResponseBody(everywhere{}), plugin.AfterResponseBody(everywhere{}), plugin.AfterCall(everywhere{}),
}

// All points of a client, in the order in which they are called.
func ExampleWithPlugins() {
	srv := server.New()
	_ = srv.RegisterFunc("Door.Knock", func(ctx context.Context) string {
		return tandem.FromContext(ctx).Metadata.Get("greeting") + " yourself"
	})
	network := transport.NewMemory()
	ln, _ := network.Listen(context.Background(), "door")
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	c, err := client.Dial("mem://door", client.WithTransport("mem", network), client.WithPlugins(everywhere{}))
	if err != nil {
		fmt.Println(err)
		return
	}
	var answer string
	err = c.Call(context.Background(), "Door.Knock", tandem.Args{}, &answer)
	fmt.Println(answer, err, c.Close(), srv.Close())
	<-served
	// Output:
	// before the call: Door.Knock
	// on the way out
	// attempt 0
	// before an instance is chosen
	// before the request to door
	// after the request: <nil>
	// before the response's header
	// after the response's header: <nil>
	// before the response's body
	// after the response's body: hello yourself
	// after the call: ok
	// hello yourself <nil> <nil> <nil>
}
