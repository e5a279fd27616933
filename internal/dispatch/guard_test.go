package dispatch

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/tandem-rpc/tandem"
)

// report holds the arguments of a PanicFunc.
type report struct {
	method string
	value  any
	stack  string
}

// recorder returns a table and the reports of its panics.
func recorder() (*Table, *[]report) {
	var reports []report
	return New(Config{OnPanic: func(method string, value any, stack []byte) {
		reports = append(reports, report{method, value, string(stack)})
	}}), &reports
}

func explode() { panic("secret") }

// TestPanics checks that the caller's error has no details of a panic, and the hook
// has all.
func TestPanics(t *testing.T) {
	table, reports := recorder()
	must(t, table.RegisterFunc("S.Reflect", func(int) error { explode(); return nil }))
	must(t, table.RegisterFunc("S.Func", tandem.Func(func(context.Context, *tandem.Call) error { explode(); return nil })))
	must(t, table.Add(UnaryMethod("S.Typed", func(context.Context, *int) (*int, error) { explode(); return nil, nil })))
	for i, name := range []string{"S.Reflect", "S.Func", "S.Typed"} {
		_, err := call(table, name, "1")
		if want := "internal: method " + name + " panicked"; err == nil || err.Error() != want || !tandem.MayHaveExecuted(err) {
			t.Errorf("got %v, want %s", err, want)
		}
		r := (*reports)[i]
		if r.method != name || r.value != "secret" || !strings.Contains(r.stack, "dispatch.explode") {
			t.Errorf("%+v", r)
		}
	}
	must(t, table.RegisterFunc("S.Nil", func() error { panic(nil) }))
	_, err := call(table, "S.Nil", "[]")
	wantError(t, err, "S.Nil panicked")
	var nilPanic *runtime.PanicNilError
	if e, ok := (*reports)[3].value.(error); !ok || !errors.As(e, &nilPanic) {
		t.Errorf("reported %v", (*reports)[3].value)
	}
}

// TestPanicWithoutHook checks that a panic is recovered without a hook, too.
func TestPanicWithoutHook(t *testing.T) {
	table := New(Config{})
	must(t, table.RegisterFunc("S.M", func(n int) (int, error) { return 10 / n, nil }))
	_, err := call(table, "S.M", "0")
	wantError(t, err, "panicked")
	wantCall(t, table, "S.M", "5", "2")
}

// TestStackIsBounded checks that only the top of a deep stack is reported.
func TestStackIsBounded(t *testing.T) {
	var deep func(n int)
	deep = func(n int) {
		if n == 0 {
			explode()
		}
		deep(n - 1)
	}
	table, reports := recorder()
	must(t, table.RegisterFunc("S.M", func() error { deep(10_000); return nil }))
	_, err := call(table, "S.M", "[]")
	wantError(t, err, "panicked")
	if n := len((*reports)[0].stack); n > maxStack {
		t.Errorf("%d bytes", n)
	}
}

// runAlone runs a call on a goroutine of its own, as a session may. It returns
// Run's result, or the errors that exited got, once the goroutine has ended.
func runAlone(f tandem.Func) (told []error, normal bool, err error) {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		err = Run(context.Background(), &tandem.Call{Method: "S.M", Body: &jsonBody{in: "[]"}}, f, func(_ context.Context, _ *tandem.Call, err error) {
			told = append(told, err)
		})
		normal = true
	}()
	<-gone
	return told, normal, err
}

// TestGoexit checks that the caller gets an error although the goroutine ends.
func TestGoexit(t *testing.T) {
	table, reports := recorder()
	must(t, table.RegisterFunc("S.M", func() error { runtime.Goexit(); return nil }))
	told, normal, _ := runAlone(table.Lookup("S.M").Func)
	if len(told) != 1 || normal {
		t.Fatalf("exited was told %v; Run returned: %v", told, normal)
	}
	wantError(t, told[0], "internal: method S.M ended its goroutine")
	if len(*reports) != 1 || !errors.Is((*reports)[0].value.(error), errGoexit) || !strings.Contains((*reports)[0].stack, "TestGoexit") {
		t.Errorf("%+v", *reports)
	}
}

func TestRun(t *testing.T) {
	bad := errors.New("bad")
	for _, want := range []error{nil, bad} {
		told, normal, err := runAlone(func(context.Context, *tandem.Call) error { return want })
		if len(told) != 0 || !errors.Is(err, want) || !normal {
			t.Errorf("exited was told %v; Run returned %v, %v", told, err, normal)
		}
	}
}
