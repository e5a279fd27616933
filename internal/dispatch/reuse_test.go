package dispatch

import (
	"context"
	"errors"
	"testing"

	"github.com/tandem-rpc/tandem"
)

// keeper keeps its arguments, which WithReuse forbids, so that tests see what happens
// to them.
type keeper struct {
	kept     map[*Args]int // to the number of calls that had them
	panicked *Args
}

var errKept = errors.New("kept")

func (k *keeper) Pointer(args *Args, sum *int) error {
	k.kept[args]++
	if args.A < 0 {
		k.panicked = args
		panic(errKept)
	}
	*sum = args.A + args.B
	return nil
}

func (k *keeper) Values(a, b Args) (int, error) { return a.A + a.B + b.A + b.B, nil }

func (k *keeper) Stream(context.Context, *tandem.Stream[int, int]) error { return nil }

// reusing returns a table with the method, registered in every way that can reuse
// arguments.
func reusing(t *testing.T, k *keeper) *Table {
	table := New(Config{OnPanic: func(string, any, []byte) {}})
	must(t, table.RegisterName("Method", k, WithReuse()))
	must(t, table.RegisterFunc("Func.Pointer", k.Pointer, WithReuse()))
	must(t, table.Add(UnaryMethod("Typed.Pointer", func(_ context.Context, args *Args) (*int, error) {
		sum := 0
		return &sum, k.Pointer(args, &sum)
	}), WithReuse()))
	return table
}

func TestReusedArgumentsAreCleared(t *testing.T) {
	for _, service := range []string{"Method", "Func", "Typed"} {
		k := &keeper{kept: map[*Args]int{}}
		table := reusing(t, k)
		const calls = 100
		for range calls { // under the race detector a pool drops some values
			wantCall(t, table, service+".Pointer", `{"A":5,"B":6}`, "11")
			wantCall(t, table, service+".Pointer", `{"A":1}`, "1")
		}
		if n := len(k.kept); n > calls {
			t.Errorf("%s: %d arguments for %d calls", service, n, 2*calls)
		}
	}
}

func TestReusedValuesAreCleared(t *testing.T) {
	table := reusing(t, &keeper{})
	for range 100 {
		wantCall(t, table, "Method.Values", `[{"A":1,"B":2},{"A":3,"B":4}]`, "10")
		wantCall(t, table, "Method.Values", `[{"A":1},{"B":1}]`, "2")
	}
	m := table.Lookup("Method.Values").Func
	var body nopBody
	ctx, c := context.Background(), &tandem.Call{Method: "Method.Values", Body: body}
	plain := New(Config{})
	must(t, plain.RegisterName("Method", &keeper{}))
	count := func(f tandem.Func) float64 {
		return testing.AllocsPerRun(1000, func() { _ = f(ctx, c) })
	}
	if with, without := count(m), count(plain.Lookup("Method.Values").Func); with > without-1 {
		t.Errorf("%v allocations a call, %v without reuse", with, without)
	}
}

// Another goroutine may still hold the arguments of a call that panicked.
func TestArgumentsOfAPanicAreNotReused(t *testing.T) {
	for _, service := range []string{"Method", "Func", "Typed"} {
		k := &keeper{kept: map[*Args]int{}}
		table := reusing(t, k)
		if _, err := call(table, service+".Pointer", `{"A":-1}`); tandem.CodeOf(err) != tandem.Internal {
			t.Fatal(err)
		}
		for range 100 {
			wantCall(t, table, service+".Pointer", `{"A":1}`, "1")
		}
		if n := k.kept[k.panicked]; n != 1 {
			t.Errorf("%s: used %d times", service, n)
		}
	}
}

// The option applies to whole services: methods that have nothing to reuse are served
// as without it.
func TestReuseWhereThereIsNothingToReuse(t *testing.T) {
	table := reusing(t, &keeper{})
	if out, err := callStream(table, "Method.Stream"); err != nil || out != "" {
		t.Errorf("%q, %v", out, err)
	}
	must(t, table.RegisterFunc("Func.None", func() (int, error) { return 7, nil }, WithReuse()))
	wantCall(t, table, "Func.None", "[]", "7")
}
