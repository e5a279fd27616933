package dispatch

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
)

// Calc is a service of two methods.
type Calc struct{}

func (Calc) Double(n int) (int, error) { return 2 * n, nil }
func (Calc) Negate(n int) (int, error) { return -n, nil }
func (Calc) Plain(n int) int           { return n }

// Later has a method that Calc has not, and one that it has.
type Later struct{}

func (Later) Triple(n int) (int, error) { return 3 * n, nil }
func (Later) Double(n int) (int, error) { return n, nil }

func double(n int) (int, error) { return 2 * n, nil }

func TestTable(t *testing.T) {
	table := New(Config{})
	if table.Lookup("Calc.Double") != nil || table.Methods() != nil {
		t.Error("a new table has methods")
	}
	must(t, table.Register(Calc{}, WithSkipUnsuitable()))
	must(t, table.RegisterFunc("Calc.Twice", double))
	must(t, table.RegisterFunc("plain", double))
	must(t, table.Add(UnaryMethod("pkg.Calc.Typed", func(_ context.Context, n *int) (*int, error) { return n, nil })))
	if got, want := methodNames(table), []string{"Calc.Double", "Calc.Negate", "Calc.Twice", "pkg.Calc.Typed", "plain"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := table.Services(), []string{"Calc", "pkg.Calc"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	wantCall(t, table, "Calc.Double", "2", "4")
	wantCall(t, table, "Calc.Twice", "2", "4")
	wantCall(t, table, "plain", "2", "4")
	wantCall(t, table, "pkg.Calc.Typed", "2", "2")
	if m := table.Lookup("pkg.Calc.Typed"); m.Service() != "pkg.Calc" || m.Args[0].String() != "int" {
		t.Errorf("%+v", m)
	}
}

func TestDuplicates(t *testing.T) {
	table := New(Config{})
	must(t, table.Register(Calc{}, WithSkipUnsuitable()))
	before := methodNames(table)
	wantError(t, table.Register(Calc{}, WithSkipUnsuitable()), `service "Calc" of dispatch.Calc`, "taken by a service of dispatch.Calc")
	wantError(t, table.RegisterName("Calc", Later{}), "dispatch.Later", "dispatch.Calc")
	wantError(t, table.RegisterFunc("Calc.Double", double), "dispatch.double", "(dispatch.Calc).Double")
	must(t, table.RegisterFunc("Later.Triple", func(n int) error { return nil }))
	wantError(t, table.Register(Later{}), `"Later.Triple" ((dispatch.Later).Triple)`, "TestDuplicates.func1")
	wantError(t, table.RegisterName("X", Calc{}, WithSkipUnsuitable(), ForMethod("Double", WithName("Negate"))), "(dispatch.Calc).Double", "(dispatch.Calc).Negate")
	if got := methodNames(table); !slices.Equal(got, append(before, "Later.Triple")) {
		t.Errorf("a refused registration left %v", got)
	}
}

func TestNames(t *testing.T) {
	long := strings.Repeat("x", maxName)
	for name, want := range map[string]string{
		"":           "empty name",
		long + "x":   "1025 bytes, limit 1024",
		"S.\xff":     "UTF-8",
		"S.a\nb":     "control character",
		"S.a\u0085b": "control character",
		".M":         "dot",
		"S.":         "dot",
	} {
		wantError(t, New(Config{}).RegisterFunc(name, double), want)
		wantError(t, New(Config{}).RegisterName(name, Calc{}, WithSkipUnsuitable()), want)
		table := New(Config{})
		must(t, table.RegisterFunc("S.M", double))
		wantError(t, table.Alias(name, "S.M"), want)
	}
	wantError(t, New(Config{}).RegisterName(long, Calc{}, WithSkipUnsuitable()), "limit 1024") // the service fits, its methods do not
	table := New(Config{})
	for _, name := range []string{long, "计算.加", "S.a b", "a.b.c.D", "/pkg.Svc/M"} {
		must(t, table.RegisterFunc(name, double))
		wantCall(t, table, name, "1", "2")
	}
}

func TestAliasOfMethod(t *testing.T) {
	table := New(Config{})
	must(t, table.Register(Calc{}, WithSkipUnsuitable()))
	must(t, table.Alias("Math.twice", "Calc.Double"))
	must(t, table.Alias("twice", "Math.twice"))
	wantCall(t, table, "Math.twice", "2", "4")
	wantCall(t, table, "twice", "2", "4")
	if table.Lookup("twice") != table.Lookup("Calc.Double") {
		t.Error("an alias has another method")
	}
	if got, want := table.Aliases(), map[string]string{"Math.twice": "Calc.Double", "twice": "Calc.Double"}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	wantError(t, table.Alias("Calc.Negate", "Calc.Double"), `alias "Calc.Negate" of "Calc.Double"`, "(dispatch.Calc).Negate")
	wantError(t, table.Alias("x", "Calc.Unknown"), `"Calc.Unknown"`, "no method or service")
}

func TestAliasOfService(t *testing.T) {
	table := New(Config{})
	must(t, table.Register(Calc{}, WithSkipUnsuitable()))
	must(t, table.Alias("Calc.old", "Calc.Double"))
	must(t, table.Alias("Math", "Calc"))
	must(t, table.Alias("M", "Math")) // an alias of an alias is one of the service
	must(t, table.RegisterFunc("Calc.Later", double))
	must(t, table.Alias("Calc.later", "Calc.Later"))
	must(t, table.RegisterFunc("Other.M", double))
	if table.Lookup("Math.M") != nil {
		t.Error("an alias covers a method of another service")
	}
	for _, service := range []string{"Calc", "Math", "M"} {
		for _, method := range []string{"Double", "old", "Later", "later"} {
			wantCall(t, table, service+"."+method, "2", "4")
		}
	}
	if got, want := table.Services(), []string{"Calc", "M", "Math", "Other"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if n := len(table.Methods()); n != 4 {
		t.Errorf("%d methods, want 4", n)
	}
	wantError(t, table.Alias("Math", "Calc"), `"Math"`, `"Calc"`)
	wantError(t, table.Alias("Calc", "Calc"), `there is a service "Calc"`)
	wantError(t, table.RegisterFunc("Math.New", double), `"Math" is an alias of "Calc"`)
	wantError(t, table.RegisterName("M", Later{}), `"M" is an alias of "Calc"`)
	wantError(t, table.Alias("x", "Unknown"), "no method or service")
	must(t, table.RegisterFunc("plain", double)) // belongs to no service
	wantError(t, table.Alias("x", ""), "no method or service")
}

// TestAliasTooLong checks that a method registered later fails if its name under an alias is too long.
func TestAliasTooLong(t *testing.T) {
	table := New(Config{})
	must(t, table.Register(Calc{}, WithSkipUnsuitable()))
	must(t, table.Alias(strings.Repeat("x", maxName-len(".Double")), "Calc"))
	wantError(t, table.RegisterFunc("Calc.Doubled", double), "limit 1024")
	if table.Lookup("Calc.Doubled") != nil {
		t.Error("a refused method is found")
	}
}

func TestOptions(t *testing.T) {
	table := New(Config{})
	must(t, table.Register(Calc{}, WithSkipUnsuitable(), WithTimeout(time.Second), WithMaxMessage(100),
		ForMethod("Double", WithName("double"), WithTimeout(time.Minute), WithConcurrency(2, 3)),
		ForMethod("Double", WithMaxMessage(200)),
		ForMethod("Negate", WithHidden()),
		ForMethod("Plain")))
	if got, want := methodNames(table), []string{"Calc.Plain", "Calc.double"}; !slices.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	wantCall(t, table, "Calc.double", "2", "4")
	wantCall(t, table, "Calc.Plain", "2", "2")
	m, p := table.Lookup("Calc.double"), table.Lookup("Calc.Plain")
	if m.Timeout != time.Minute || m.MaxConcurrency != 2 || m.MaxQueue != 3 || m.MaxMessage != 200 {
		t.Errorf("%+v", m)
	}
	if p.Timeout != time.Second || p.MaxConcurrency != 0 || p.MaxMessage != 100 {
		t.Errorf("%+v", p)
	}
	must(t, table.RegisterFunc("f", double, WithTimeout(-1)))
	if f := table.Lookup("f"); f.Timeout != -1 {
		t.Errorf("%+v", f)
	}
}

func TestBadOptions(t *testing.T) {
	table := New(Config{})
	wantError(t, table.Register(Calc{}, WithSkipUnsuitable(), ForMethod("Dobule")), "no method Dobule to serve", "no such exported method")
	wantError(t, table.Register(new(Arith), ForMethod("Variadic")), "no method Variadic to serve", "variadic")
	wantError(t, table.Register(Calc{}, WithSkipUnsuitable(), WithName("x")), "ForMethod")
	wantError(t, table.Register(Calc{}, WithSkipUnsuitable(), WithHidden()), "ForMethod")
	wantError(t, table.Register(Calc{}, WithSkipUnsuitable(), WithConcurrency(-1, 0)), "negative limit")
	wantError(t, table.RegisterFunc("f", double, WithName("g")), "ForMethod")
	wantError(t, table.RegisterFunc("f", double, WithNetRPC()), "about services")
	wantError(t, table.RegisterFunc("f", double, ForMethod("f")), "about services")
	wantError(t, table.Register(Calc{}, WithSkipUnsuitable(), WithNetRPC()), "it does not have net/rpc's shape")
	wantError(t, table.Register(nil), "nil")
	wantError(t, table.RegisterName("S", nil), "nil")
	wantError(t, table.Register((*Arith)(nil)), "nil *dispatch.Arith")
	wantError(t, table.Add(Method{Name: "f"}), "no Func")
	wantError(t, table.Add(UnaryMethod[int, int]("f", nil)), "no Func")
	wantError(t, table.Add(StreamingMethod[int, int]("f", nil)), "no Func")
	wantError(t, table.Add(Method{Name: "f", Kind: tandem.OneWay, Func: Unary(func(context.Context, *int) (*int, error) { return nil, nil })}), "kind 1")
	if n := len(table.Methods()); n != 0 {
		t.Errorf("%d methods", n)
	}
}

// TestWrap checks that Config.Wrap applies outside the guard.
func TestWrap(t *testing.T) {
	var seen error
	table := New(Config{Wrap: func(m *Method) (tandem.Func, bool) {
		return func(ctx context.Context, call *tandem.Call) error {
			seen = m.Func(ctx, call)
			return fmt.Errorf("wrapped %s", m.Name)
		}, true
	}})
	must(t, table.RegisterFunc("S.M", func() error { panic("x") }))
	must(t, table.Alias("S.N", "S.M"))
	_, err := call(table, "S.N", "[]")
	wantError(t, err, "wrapped S.M")
	wantError(t, seen, "method S.M panicked")
	wantError(t, New(Config{Wrap: func(*Method) (tandem.Func, bool) { return nil, false }}).RegisterFunc("f", double), "Wrap returned nil")
}

// TestKinds checks that a call of another kind does not run a method.
func TestKinds(t *testing.T) {
	table := New(Config{})
	must(t, table.RegisterFunc("S.Unary", double))
	must(t, table.RegisterFunc("S.Stream", func(*tandem.Stream[int, int]) error { return nil }))
	must(t, table.Add(StreamingMethod("S.Typed", func(context.Context, *tandem.Stream[int, int]) error { return nil })))
	_, err := callStream(table, "S.Unary")
	wantError(t, err, "unimplemented", "S.Unary is unary and was called as a stream")
	for _, name := range []string{"S.Stream", "S.Typed"} {
		_, err := call(table, name, "1")
		wantError(t, err, "unimplemented", name+" is a stream and was called as unary")
		if tandem.MayHaveExecuted(err) {
			t.Error("may have executed")
		}
		err = table.Lookup(name).Func(context.Background(), &tandem.Call{Method: name, Kind: tandem.Streaming, Body: &jsonBody{}})
		wantError(t, err, "has no stream")
	}
	b := &jsonBody{in: "1"}
	must(t, table.Lookup("S.Unary").Func(context.Background(), &tandem.Call{Kind: tandem.OneWay, Body: b}))
}

// TestConcurrentRegistration looks methods up while others are registered; the
// race detector watches.
func TestConcurrentRegistration(t *testing.T) {
	const writers, each = 4, 25
	table := New(Config{})
	must(t, table.Register(Calc{}, WithSkipUnsuitable()))
	must(t, table.Alias("Math", "Calc"))
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				name := fmt.Sprintf("Calc.M%d_%d", w, i)
				if err := table.RegisterFunc(name, double); err != nil {
					t.Error(err)
				}
				if _, err := call(table, "Math"+strings.TrimPrefix(name, "Calc"), "1"); err != nil {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			for range each {
				if out, err := call(table, "Calc.Double", "2"); err != nil || out != "4" {
					t.Error(out, err)
				}
				table.Methods()
				table.Services()
			}
		})
	}
	wg.Wait()
	if n := len(table.Methods()); n != 2+writers*each {
		t.Errorf("%d methods", n)
	}
}
