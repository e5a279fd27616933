package tandem_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tandem-rpc/tandem"
)

func ExampleError() {
	err := tandem.Errorf(tandem.NotFound, "no order %d", 7).WithDetail("order", []byte("7"))
	fmt.Println(err)
	fmt.Println(tandem.CodeOf(fmt.Errorf("loading: %w", err)), tandem.MayHaveExecuted(err))
	// Output:
	// not found: no order 7
	// not found true
}

func ExampleAsError() {
	e := tandem.AsError(context.DeadlineExceeded)
	fmt.Println(e.Code, errors.Is(e, context.DeadlineExceeded))
	e = tandem.AsError(errors.New("divide by zero"))
	fmt.Println(e)
	// Output:
	// deadline exceeded true
	// unknown: divide by zero
}

func ExampleMetadata() {
	md := tandem.Metadata{}
	md.Set("Token", "secret")
	md.Add("tag", "a")
	md.Add("tag", "b")
	fmt.Println(md.Get("TOKEN"), md.Values("tag"))
	// Output: secret [a b]
}

// A copy of the metadata, without the secret token, is for another service.
func ExampleMetadata_Clone() {
	received := tandem.Metadata{"trace": {"4711"}, "token": {"secret"}}
	forwarded := received.Clone()
	forwarded.Del("Token")
	forwarded.Set("via", "gateway")
	fmt.Println(forwarded)
	fmt.Println(received)
	// Output:
	// map[trace:[4711] via:[gateway]]
	// map[token:[secret] trace:[4711]]
}

// An interceptor wraps the Func that carries a call out, or that runs it.
func ExampleChain() {
	trace := func(name string) tandem.Interceptor {
		return func(next tandem.Func) tandem.Func {
			return func(ctx context.Context, call *tandem.Call) error {
				fmt.Println("before", name)
				defer fmt.Println("after", name)
				return next(ctx, call)
			}
		}
	}
	f := tandem.Chain(func(_ context.Context, call *tandem.Call) error {
		fmt.Println("running", call.Method)
		return nil
	}, trace("outer"), trace("inner"))
	if err := f(context.Background(), &tandem.Call{Method: "Arith.Mul"}); err != nil {
		fmt.Println(err)
	}
	// Output:
	// before outer
	// before inner
	// running Arith.Mul
	// after inner
	// after outer
}

func ExampleCall_OnEnd() {
	call := &tandem.Call{Method: "Arith.Mul"}
	call.OnEnd(func(err error) { fmt.Println("ended:", err) })
	call.End(tandem.Errorf(tandem.Unavailable, "no server"))
	call.End(nil) // nothing is left to run
	// Output: ended: unavailable: no server
}

func ExampleFromContext() {
	ctx := tandem.NewContext(context.Background(), &tandem.Call{Method: "Arith.Mul", Identity: "alice"})
	call := tandem.FromContext(ctx)
	fmt.Println(call.Method, call.Identity)
	// Output: Arith.Mul alice
}

// A registry lists instances as JSON.
func ExampleInstance() {
	in := tandem.Instance{
		ID:        "north-1",
		Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: "10.0.0.1:8972"}},
		Weight:    min(4*tandem.DefaultWeight, tandem.MaxWeight), // four times the others' share
		Zone:      "north",
	}
	text, err := json.Marshal(in)
	fmt.Println(string(text), err)
	// Output: {"id":"north-1","endpoints":[{"transport":"tcp","address":"10.0.0.1:8972"}],"weight":400,"zone":"north"} <nil>
}

func ExampleInstance_Validate() {
	in := tandem.Instance{ID: "a", Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: "10.0.0.1:8972"}}, Weight: 50}
	fmt.Println(in.Validate(), in.Endpoints[0])
	in.Weight = -1
	fmt.Println(in.Validate())
	// Output:
	// <nil> tcp://10.0.0.1:8972
	// instance "a" has weight -1, allowed 0 to 10000
}

func ExampleCode() {
	fmt.Println(tandem.ResourceExhausted, uint8(tandem.ResourceExhausted), tandem.Code(99).Valid())
	// Output: resource exhausted 8 false
}
