package server_test

import (
	"context"
	"fmt"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
)

// polite refuses calls that do not say please.
type polite struct{}

func (polite) AfterRequestHeader(_ context.Context, call *tandem.Call) error {
	if call.Metadata.Get("say") != "please" {
		return tandem.Errorf(tandem.FailedPrecondition, "say please")
	}
	return nil
}

func ExampleWithPlugins() {
	srv := server.New(server.WithPlugins(polite{}))
	check(srv.Register(new(Arith)))
	c, stop := start(srv)
	defer stop()
	var r Reply
	err := c.Call(context.Background(), "Arith.Mul", &Args{7, 8}, &r)
	fmt.Println(err)
	err = c.Call(context.Background(), "Arith.Mul", &Args{7, 8}, &r, client.Metadata("say", "please"))
	fmt.Println(r.C, err)
	// Output:
	// failed precondition: say please
	// 56 <nil>
}
