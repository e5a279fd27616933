package dispatch_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/dispatch"
)

// body is a simple Body, as sessions supply one: it carries JSON, and several
// values as an array.
type body struct{ request, response string }

func (b *body) Stream() tandem.MessageStream { return nil }

func (b *body) Encode(v any) error {
	data, err := json.Marshal(v)
	b.response = string(data)
	return err
}

func (b *body) Decode(v any) error {
	several, ok := v.(tandem.Results)
	if !ok {
		return json.Unmarshal([]byte(b.request), v)
	}
	var values []json.RawMessage
	if err := json.Unmarshal([]byte(b.request), &values); err != nil || len(values) != len(several) {
		return errors.Join(err, errors.New("another number of arguments"))
	}
	for i, value := range values {
		if err := json.Unmarshal(value, several[i]); err != nil {
			return err
		}
	}
	return nil
}

// call calls a method and prints its reply or error.
func call(t *dispatch.Table, name, request string) {
	m := t.Lookup(name)
	if m == nil {
		fmt.Println(name, "is not here")
		return
	}
	b := &body{request: request}
	if err := m.Func(context.Background(), &tandem.Call{Method: name, Body: b}); err != nil {
		fmt.Println(name, err)
		return
	}
	fmt.Println(name, b.response)
}

// check ends an example that can't go on.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

type Factors struct{ A, B int }

type Arith struct{}

// Mul has net/rpc's shape.
func (Arith) Mul(args *Factors, product *int) error {
	*product = args.A * args.B
	return nil
}

// Divide has two arguments and two results.
func (Arith) Divide(ctx context.Context, a, b int) (quo, rem int, err error) {
	if b == 0 {
		return 0, 0, tandem.Errorf(tandem.InvalidArgument, "divide by zero")
	}
	return a / b, a % b, ctx.Err()
}

func Example() {
	t := dispatch.New(dispatch.Config{})
	check(t.Register(Arith{}))
	call(t, "Arith.Mul", `{"A":7,"B":8}`)
	call(t, "Arith.Divide", `[7,2]`)
	call(t, "Arith.Divide", `[7,0]`)
	// Output:
	// Arith.Mul 56
	// Arith.Divide [3,1]
	// Arith.Divide invalid argument: divide by zero
}

func ExampleUnary() {
	mul := func(_ context.Context, in *Factors) (*int, error) {
		product := in.A * in.B
		return &product, nil
	}
	t := dispatch.New(dispatch.Config{})
	check(t.Add(dispatch.UnaryMethod("Arith.Mul", mul)))
	call(t, "Arith.Mul", `{"A":7,"B":8}`)
	// Output: Arith.Mul 56
}

func ExampleTable_RegisterFunc() {
	t := dispatch.New(dispatch.Config{})
	check(t.RegisterFunc("Text.Upper", strings.ToUpper))
	check(t.RegisterFunc("Text.Cut", strings.Cut))
	call(t, "Text.Upper", `"tandem"`)
	call(t, "Text.Cut", `["key=value","="]`)
	// Output:
	// Text.Upper "TANDEM"
	// Text.Cut ["key","value",true]
}

func ExampleTable_Alias() {
	t := dispatch.New(dispatch.Config{})
	check(t.Register(Arith{}))
	check(t.Alias("Math", "Arith"))                                   // a service
	check(t.Alias("multiply", "Arith.Mul"))                           // a method
	check(t.RegisterFunc("Arith.Neg", func(n int) int { return -n })) // later, and yet under both names
	call(t, "Math.Mul", `{"A":7,"B":8}`)
	call(t, "multiply", `{"A":7,"B":8}`)
	call(t, "Math.Neg", `5`)
	// Output:
	// Math.Mul 56
	// multiply 56
	// Math.Neg -5
}

func ExampleForMethod() {
	t := dispatch.New(dispatch.Config{})
	check(t.Register(Arith{},
		dispatch.WithTimeout(time.Second),
		dispatch.ForMethod("Mul", dispatch.WithName("multiply"), dispatch.WithConcurrency(8, 100)),
		dispatch.ForMethod("Divide", dispatch.WithHidden())))
	for _, m := range t.Methods() {
		fmt.Println(m.Name, m.Timeout, m.MaxConcurrency, m.MaxQueue)
	}
	// Output: Arith.multiply 1s 8 100
}

// Counter hijacks its method Get.
type Counter struct {
	dispatch.Hijacker
	count atomic.Int64
}

func (c *Counter) Add(n int64) error {
	c.count.Add(n)
	return nil
}

// Get determines the messages by its signature; the hijacker does the work.
func (c *Counter) Get() (int64, error) { return c.count.Load(), nil }

func (c *Counter) Setup() {
	check(c.HijackProcess("Get", func(stub *dispatch.Stub) {
		check(stub.Write(c.count.Load()))
	}))
}

func ExampleHijacker() {
	t := dispatch.New(dispatch.Config{})
	check(t.Register(new(Counter)))
	call(t, "Counter.Add", `3`)
	call(t, "Counter.Get", `[]`)
	// Output:
	// Counter.Add []
	// Counter.Get 3
}

func ExampleConfig() {
	t := dispatch.New(dispatch.Config{
		OnPanic: func(method string, value any, _ []byte) { fmt.Println("log:", method, value) },
	})
	check(t.RegisterFunc("Arith.Inverse", func(n int) int { return 1 / n }))
	call(t, "Arith.Inverse", `0`)
	// Output:
	// log: Arith.Inverse runtime error: integer divide by zero
	// Arith.Inverse internal: method Arith.Inverse panicked
}
