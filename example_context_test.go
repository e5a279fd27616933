package tandem_test

import (
	"context"
	"fmt"

	"github.com/tandem-rpc/tandem"
)

// request is a context that contains its call, in one allocation. Handlers of
// package server get one like it.
type request struct {
	context.Context
	call tandem.Call
}

func (r *request) Value(key any) any {
	if key == tandem.ContextKey() {
		return &r.call
	}
	return r.Context.Value(key)
}

func ExampleContextKey() {
	r := &request{Context: context.Background(), call: tandem.Call{Method: "Arith.Mul"}}
	ctx, cancel := context.WithCancel(r)
	defer cancel()
	fmt.Println(tandem.FromContext(ctx).Method)
	// Output: Arith.Mul
}
