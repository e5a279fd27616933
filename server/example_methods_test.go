package server_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
)

// One process may have several servers: one for all callers, and one for operators, on an
// address of its own.
func ExampleServer() {
	register := func(srv *server.Server) error {
		return errors.Join(srv.Register(new(Arith)),
			server.Handle(srv, "Health.Check", func(context.Context, *int) (*string, error) {
				ok := "ok"
				return &ok, nil
			}))
	}
	public, admin := server.New(server.WithMaxConcurrency(1000, 0)), server.New()
	check(register(public))
	check(register(admin))
	check(server.Handle(admin, "Admin.Stop", func(ctx context.Context, _ *string) (*string, error) {
		farewell := "good night"
		return &farewell, public.Shutdown(ctx)
	}))
	users, stopPublic := start(public)
	defer stopPublic()
	operators, stopAdmin := start(admin)
	defer stopAdmin()
	fmt.Println(users.Call(context.Background(), "Admin.Stop", "", nil))
	fmt.Println(*must(client.Invoke[string](context.Background(), operators, "Admin.Stop", "")))
	fmt.Println(*must(client.Invoke[string](context.Background(), operators, "Health.Check", 0)))
	// Output:
	// unimplemented: no method "Admin.Stop" here
	// good night
	// ok
}

// Stock has a method that can't be served: it has no error for its last result.
type Stock struct{}

// Count has any number of arguments and results.
func (Stock) Count(_ context.Context, item string) (int, error) { return len(item), nil }

func (Stock) String() string { return "stock" }

// Methods that can't be served are named in the error of Register, or left out with
// SkipUnsuitable.
func ExampleSkipUnsuitable() {
	srv := server.New()
	fmt.Println(srv.Register(Stock{}))
	fmt.Println(srv.Register(Stock{}, server.SkipUnsuitable()), srv.Methods())
	// Output:
	// dispatch: service "Stock" of server_test.Stock has methods that can't be served: String: its last result is not an error; name it with ForMethod to register it anyway: give SkipUnsuitable() to leave them out, or hide each with ForMethod(name, MethodHidden())
	// <nil> [Stock.Count]
}

// A service may have another name than its type, and its methods other names than Go's; some
// may be left out.
func ExampleServer_RegisterName() {
	srv := server.New()
	check(srv.RegisterName("math", new(Arith),
		server.ForMethod("Divide", server.MethodHidden()),
		server.ForMethod("Mul", server.MethodName("multiply"))))
	fmt.Println(srv.Methods())
	c, stop := start(srv)
	defer stop()
	fmt.Println(must(client.Invoke[Reply](context.Background(), c, "math.multiply", &Args{6, 7})).C)
	fmt.Println(c.Call(context.Background(), "math.Divide", &Args{6, 7}, nil))
	// Output:
	// [math.multiply]
	// 42
	// unimplemented: no method "math.Divide" here
}

// A tandem.Func of any kind is a method. The description says what its messages are.
func ExampleServer_RegisterMethod() {
	srv := server.New()
	m := &server.Method{Name: "Text.Upper", Args: []reflect.Type{reflect.TypeFor[string]()}, Results: []reflect.Type{reflect.TypeFor[string]()}}
	check(srv.RegisterMethod(m, func(_ context.Context, call *tandem.Call) error {
		var text string
		if err := call.Body.Decode(&text); err != nil {
			return err
		}
		return call.Body.Encode(strings.ToUpper(text))
	}))
	lines := &server.Method{Name: "Text.Lines", Kind: tandem.Streaming, Out: reflect.TypeFor[string]()}
	check(srv.RegisterMethod(lines, func(_ context.Context, call *tandem.Call) error {
		return errors.Join(call.Body.Stream().SendMsg("one"), call.Body.Stream().SendMsg("two"))
	}))
	for _, m := range srv.Describe() {
		fmt.Println(m.Name, m.Args, m.Results, m.Out)
	}
	c, stop := start(srv)
	defer stop()
	fmt.Println(*must(client.Invoke[string](context.Background(), c, "Text.Upper", "quiet")))
	s := must(client.Stream[string, string](context.Background(), c, "Text.Lines"))
	for line, err := range s.All() {
		fmt.Println(*line, err)
	}
	// Output:
	// Text.Lines [] [] string
	// Text.Upper [string] [string] <nil>
	// QUIET
	// one <nil>
	// two <nil>
}
