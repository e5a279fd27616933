package server_test

import (
	"context"
	"fmt"
	"net"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/plugin"
	"github.com/tandem-rpc/tandem/server"
)

// everywhere implements every point. Most plugins implement one or two.
type everywhere struct{}

func (everywhere) ServiceRegistered(r *plugin.Registration) error {
	fmt.Println("registered", r.Service, "with", len(r.Methods), "methods")
	r.Alias("Calculator", r.Service)
	return nil
}

func (everywhere) ConnAccepted(c net.Conn) (net.Conn, error) {
	fmt.Println("accepted")
	return c, nil
}

func (everywhere) ConnClosed(net.Conn, error) { fmt.Println("closed") }

func (everywhere) KeepsNothing() {}

func (everywhere) BeforeRequestHeader(_ context.Context, call *tandem.Call) error {
	fmt.Println("before the header:", call.Method)
	return nil
}

func (everywhere) Intercept(next tandem.Func) tandem.Func {
	return func(ctx context.Context, call *tandem.Call) error {
		fmt.Println("on the way in")
		err := next(ctx, call)
		fmt.Println("on the way out")
		return err
	}
}

func (everywhere) AfterRequestHeader(context.Context, *tandem.Call) error {
	fmt.Println("after the header")
	return nil
}

func (everywhere) BeforeRequestBody(context.Context, *tandem.Call) error {
	fmt.Println("before the body")
	return nil
}

func (everywhere) AfterRequestBody(_ context.Context, _ *tandem.Call, args any) error {
	fmt.Println("after the body:", *args.(*Args))
	return nil
}

func (everywhere) BeforeResponse(_ context.Context, _ *tandem.Call, reply any, err error) error {
	fmt.Println("before the response:", *reply.(*Reply), err)
	return err
}

func (everywhere) AfterResponse(_ context.Context, _ *tandem.Call, end tandem.Outcome) {
	fmt.Println("after the response:", end.Code())
}

var _ = []any{
	plugin.ServiceRegistered(everywhere{}), plugin.ConnAccepted(everywhere{}), plugin.ConnClosed(everywhere{}),
	plugin.PerMethod(choosy{}), plugin.KeepsNothing(everywhere{}), plugin.Panicked(everywhere{}),
	plugin.BeforeRequestHeader(everywhere{}), plugin.Intercepts(everywhere{}), plugin.AfterRequestHeader(everywhere{}),
	plugin.BeforeRequestBody(everywhere{}), plugin.AfterRequestBody(everywhere{}),
	plugin.BeforeResponse(everywhere{}), plugin.AfterResponse(everywhere{}),
}

func (everywhere) Panicked(what string, value any, _ []byte) { fmt.Println(what, value) }

// choosy applies to one method.
type choosy struct{}

func (choosy) ForMethod(m plugin.Method) any {
	if m.Name != "Arith.Divide" {
		return nil
	}
	return everywhere{}
}

// This plugin prints every point of a server, in order.
func ExampleWithPlugins_points() {
	srv := server.New(server.WithPlugins(everywhere{}, choosy{}))
	check(srv.Register(new(Arith)))
	c, stop := start(srv)
	var r Reply
	err := c.Call(context.Background(), "Calculator.Mul", &Args{7, 8}, &r)
	stop()
	fmt.Println(r.C, err)
	// Output:
	// registered Arith with 2 methods
	// accepted
	// before the header: Calculator.Mul
	// on the way in
	// after the header
	// before the body
	// after the body: {7 8}
	// before the response: {56} <nil>
	// on the way out
	// after the response: ok
	// closed
	// 56 <nil>
}
