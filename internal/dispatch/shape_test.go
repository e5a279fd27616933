package dispatch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"testing"
	"unsafe"

	"github.com/tandem-rpc/tandem"
)

type Point struct{ X, Y int }

type hidden struct{ N int }

// TestShapes calls functions of every shape.
func TestShapes(t *testing.T) {
	type ctx = context.Context
	for _, test := range []struct {
		name     string
		fn       any
		in, want string
	}{
		{"net/rpc", func(p Point, r *int) error { *r = p.X + p.Y; return nil }, `{"X":1,"Y":2}`, `3`},
		{"net/rpc pointer", func(p *Point, r *int) error { *r = p.X; return nil }, `{"X":1}`, `1`},
		{"net/rpc context", func(c ctx, p *Point, r *int) error { *r = p.X; return c.Err() }, `{"X":1}`, `1`},
		{"net/rpc pointer to pointer", func(p **Point, r **int) error { *r = &(*p).X; return nil }, `{"X":1}`, `1`},
		{"net/rpc map is made", func(k string, r *map[string]int) error { (*r)[k] = 1; return nil }, `"a"`, `{"a":1}`},
		{"net/rpc slice is made", func(_ int, _ *[]int) error { return nil }, `1`, `[]`},
		{"one and one", func(n int) (int, error) { return n + 1, nil }, `1`, `2`},
		{"one pointer is an argument", func(p *Point) error { p.X++; return nil }, `{"X":1}`, `[]`},
		{"context and one pointer", func(_ ctx, p *Point) (*Point, error) { return p, nil }, `{"X":1}`, `{"X":1,"Y":0}`},
		{"context only", func(c ctx) error { return c.Err() }, `[]`, `[]`},
		{"nothing", func() {}, `[]`, `[]`},
		{"no error", func(a, b int) int { return a + b }, `[1,2]`, `3`},
		{"two and two", func(a, b int) (int, int, error) { return a / b, a % b, nil }, `[7,2]`, `[3,1]`},
		{"three, the last a pointer", func(a, b int, p *Point) error { p.X = a; return nil }, `[1,2,{}]`, `[]`},
		{"three, the second a pointer", func(a int, p *Point, b int) error { return nil }, `[1,{},2]`, `[]`},
		{"two, the last a pointer, no error", func(a int, p *Point) { p.X = a }, `[1,{}]`, `[]`},
		{"two, the last a pointer, with a result", func(a int, p *Point) (int, error) { return a + p.X, nil }, `[1,{"X":2}]`, `3`},
		{"many", func(_ ctx, a, b, c, d, e, f, g, h string) (string, error) { return a + b + c + d + e + f + g + h, nil },
			`["a","b","c","d","e","f","g","h"]`, `"abcdefgh"`},
		{"sole nil pointer", func() (*Point, error) { return nil, nil }, `[]`, `{"X":0,"Y":0}`},
		{"nil pointer among several", func() (int, *Point, error) { return 1, nil, nil }, `[]`, `[1,null]`},
		{"pointer argument is not nil", func(a *Point, b *Point) (int, error) { return a.X + b.X, nil }, `[null,{"X":2}]`, `2`},
		{"any", func(v any) (any, error) { return v, nil }, `[1,"a"]`, `[1,"a"]`},
		{"result of interface type", func(s string) (fmt.Stringer, error) { return reflect.ValueOf(s), nil }, `"a"`, `{}`},
		{"unnamed types", func(m map[string][]int) (struct{ A int }, error) { return struct{ A int }{m["a"][0]}, nil },
			`{"a":[4]}`, `{"A":4}`},
		{"tandem.Func", tandem.Func(func(_ ctx, c *tandem.Call) error { return c.Body.Encode("raw") }), `5`, `"raw"`},
		{"shape of tandem.Func", func(_ ctx, c *tandem.Call) error { return c.Body.Encode("raw") }, `5`, `"raw"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			table := New(Config{})
			must(t, table.RegisterFunc("S.M", test.fn))
			for range 2 { // the second call reuses memory
				wantCall(t, table, "S.M", test.in, test.want)
			}
		})
	}
}

// TestStreamShapes calls streaming functions, which add up what they receive.
func TestStreamShapes(t *testing.T) {
	type stream = *tandem.Stream[int, Point]
	sum := func(s stream) (sum int, err error) {
		for n, err := range s.All() {
			if err != nil {
				return 0, err
			}
			sum += *n
		}
		return sum, s.Send(&Point{X: sum})
	}
	for _, test := range []struct {
		name string
		fn   any
		in   []string
		want string
	}{
		{"stream", func(s stream) error { _, err := sum(s); return err }, []string{"1", "2"}, "{\"X\":3,\"Y\":0}\n"},
		{"context", func(c context.Context, s stream) error { _, err := sum(s); return errors.Join(err, c.Err()) },
			[]string{"1", "2"}, "{\"X\":3,\"Y\":0}\n"},
		{"argument", func(s stream, n int) error { return s.Send(&Point{Y: n}) }, []string{"1"}, "{\"X\":0,\"Y\":1}\n"},
		{"arguments and results", func(_ context.Context, s stream, a, b int) (int, *Point, error) {
			n, err := sum(s)
			return a + b + n, &Point{Y: n}, err
		}, []string{"[10,20]", "1", "2"}, "{\"X\":3,\"Y\":0}\n[33,{\"X\":0,\"Y\":3}]\n"},
		{"result", sum, []string{"1", "2"}, "{\"X\":3,\"Y\":0}\n3\n"},
		{"argument and pointer are both arguments", func(s stream, n int, p *Point) error { return s.Send(&Point{X: n, Y: p.Y}) },
			[]string{`[1,{"Y":2}]`}, "{\"X\":1,\"Y\":2}\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			table := New(Config{})
			must(t, table.RegisterFunc("S.M", test.fn))
			m := table.Lookup("S.M")
			if m.Kind != tandem.Streaming || m.In != reflect.TypeFor[int]() || m.Out != reflect.TypeFor[Point]() {
				t.Errorf("kind %v, in %v, out %v", m.Kind, m.In, m.Out)
			}
			got, err := callStream(table, "S.M", test.in...)
			if err != nil || got != test.want {
				t.Errorf("got %q, %v; want %q", got, err, test.want)
			}
		})
	}
}

// TestStreamWithoutArguments ends a stream before its arguments have arrived.
func TestStreamWithoutArguments(t *testing.T) {
	table := New(Config{})
	must(t, table.RegisterFunc("S.M", func(_ *tandem.Stream[int, int], _ int) error { return nil }))
	_, err := callStream(table, "S.M")
	if tandem.CodeOf(err) != tandem.InvalidArgument || !errors.Is(err, io.EOF) {
		t.Errorf("got %v", err)
	}
}

// TestRefusedShapes registers functions that can't be served.
func TestRefusedShapes(t *testing.T) {
	for _, test := range []struct {
		name string
		fn   any
		want string
	}{
		{"variadic", func(...int) error { return nil }, "variadic"},
		{"unexported argument", func(hidden) error { return nil }, "argument 1: type dispatch.hidden is not exported"},
		{"unexported net/rpc argument", func(*hidden, *int) error { return nil }, "argument 1: type *dispatch.hidden is not exported"},
		{"unexported reply", func(int, *hidden) error { return nil }, "result 1: type *dispatch.hidden is not exported"},
		{"unexported result", func() (int, **hidden, error) { return 0, nil, nil }, "result 2: type **dispatch.hidden is not exported"},
		{"function", func(func()) error { return nil }, "no codec carries a func()"},
		{"channel", func() (chan int, error) { return nil, nil }, "result 1: no codec carries a chan int"},
		{"unsafe pointer", func(unsafe.Pointer, int) error { return nil }, "no codec carries a unsafe.Pointer"},
		{"interface", func(io.Reader) error { return nil }, "interface io.Reader"},
		{"late context", func(int, context.Context) error { return nil }, "must come first"},
		{"late stream", func(int, *tandem.Stream[int, int]) (int, error) { return 0, nil }, "must come first"},
		{"two streams", func(_, _ *tandem.Stream[int, int]) error { return nil }, "must come first"},
		{"early error", func() (error, int) { return nil, 0 }, "result 1: error must be the last result"}, //nolint:staticcheck // the mistake under test
		{"error as argument", func(error) error { return nil }, "error must be the last result"},
		{"no function", 5, "want a function, not int"},
		{"nil", nil, "want a function, not <nil>"},
		{"nil function", (func())(nil), "the function is nil"},
	} {
		t.Run(test.name, func(t *testing.T) {
			wantError(t, New(Config{}).RegisterFunc("S.M", test.fn), test.want, `"S.M"`)
		})
	}
}

// TestReturnedErrors checks that the caller gets a method's error and no result.
func TestReturnedErrors(t *testing.T) {
	bad := errors.New("bad")
	forwarded := &tandem.Error{Code: tandem.Unavailable, Message: "down", NotExecuted: true}
	table := New(Config{})
	must(t, table.RegisterFunc("S.Plain", func(int, *int) error { return bad }))
	must(t, table.RegisterFunc("S.Forwarded", func(int) (int, error) { return 0, forwarded }))
	if out, err := call(table, "S.Plain", "1"); !errors.Is(err, bad) || out != "" {
		t.Errorf("got %q, %v; want the method's error and nothing sent", out, err)
	}
	_, err := call(table, "S.Forwarded", "1")
	if tandem.CodeOf(err) != tandem.Unavailable || !tandem.MayHaveExecuted(err) {
		t.Errorf("got %v, may have executed %v; want unavailable, true", err, tandem.MayHaveExecuted(err))
	}
	if !forwarded.NotExecuted {
		t.Error("the method's own error was changed")
	}
}

// TestBadMessages checks the errors of arguments and results that do not decode or encode.
func TestBadMessages(t *testing.T) {
	ran := 0
	table := New(Config{})
	must(t, table.RegisterFunc("S.One", func(int) error { ran++; return nil }))
	must(t, table.RegisterFunc("S.Two", func(_, _ int) error { ran++; return nil }))
	must(t, table.RegisterFunc("S.None", func() error { ran++; return nil }))
	must(t, table.Add(UnaryMethod("S.Typed", func(context.Context, *int) (*int, error) { ran++; return nil, nil })))
	for name, in := range map[string]string{"S.One": `"a"`, "S.Two": `[1]`, "S.None": `[1]`, "S.Typed": `{}`} {
		_, err := call(table, name, in)
		if tandem.CodeOf(err) != tandem.InvalidArgument || tandem.MayHaveExecuted(err) {
			t.Errorf("%s: got %v; want invalid argument, not executed", name, err)
		}
		wantError(t, err, "arguments of "+name)
	}
	if ran != 0 {
		t.Errorf("%d methods ran", ran)
	}
	must(t, table.RegisterFunc("S.Unencodable", func() (any, error) { return func() {}, nil }))
	_, err := call(table, "S.Unencodable", "[]")
	if tandem.CodeOf(err) != tandem.Internal || !tandem.MayHaveExecuted(err) {
		t.Errorf("got %v; want internal", err)
	}
	wantError(t, err, "results of S.Unencodable")
}

// failingBody fails to decode with an error of its own.
type failingBody struct {
	jsonBody
	err error
}

func (b *failingBody) Decode(any) error { return b.err }

// TestBodyErrorsKeepTheirCode checks that errors of a Body keep their code and details.
func TestBodyErrorsKeepTheirCode(t *testing.T) {
	table := New(Config{})
	must(t, table.RegisterFunc("S.M", func(int) error { return nil }))
	tooBig := tandem.Errorf(tandem.ResourceExhausted, "5 MB, limit 4 MB").WithDetail("limit", []byte("4"))
	b := &failingBody{err: tooBig}
	err := table.Lookup("S.M").Func(context.Background(), &tandem.Call{Method: "S.M", Body: b})
	e := tandem.AsError(err)
	if e.Code != tandem.ResourceExhausted || len(e.Details) != 1 || !e.NotExecuted {
		t.Errorf("got %+v", e)
	}
	if want := "resource exhausted: arguments of S.M: 5 MB, limit 4 MB"; e.Error() != want {
		t.Errorf("got %q, want %q", e, want)
	}
	if tooBig.NotExecuted {
		t.Error("the body's own error was changed")
	}
}

// TestValuesPassUntouched checks that values reach a method, and results the
// body, without a copy where both are pointers.
func TestValuesPassUntouched(t *testing.T) {
	table := New(Config{})
	p := &Point{X: 1}
	must(t, table.RegisterFunc("S.M", func(in *Point) (*Point, error) { p.Y = in.X; return p, nil }))
	b := &valueBody{in: Point{X: 7}}
	must(t, table.Lookup("S.M").Func(context.Background(), &tandem.Call{Method: "S.M", Body: b}))
	if b.out != p || p.Y != 7 {
		t.Errorf("got %v at another address than %v", b.out, p)
	}
}

// TestMethodTypes checks the types that a listing shows.
func TestMethodTypes(t *testing.T) {
	table := New(Config{})
	must(t, table.RegisterFunc("S.M", func(context.Context, *Point, int, string) (*Point, []int, error) { return nil, nil, nil }))
	must(t, table.RegisterFunc("S.Reply", func(*Point, *int) error { return nil }))
	m, r := table.Lookup("S.M"), table.Lookup("S.Reply")
	if got := fmt.Sprint(m.Args, m.Results, m.Kind); got != "[dispatch.Point int string] [dispatch.Point []int] 0" {
		t.Error(got)
	}
	if got := fmt.Sprint(r.Args, r.Results); got != "[dispatch.Point] [int]" {
		t.Error(got)
	}
}
