package dispatch

import (
	"strings"
	"sync"
	"testing"
)

// Odd has one method that can be served, and others that can't.
type Odd struct{ sync.Mutex }

func (*Odd) Fits(n int) (int, error)       { return n, nil }
func (*Odd) Plain(a, b int) int            { return a * b }
func (*Odd) One(s string) string           { return s }
func (*Odd) Variadic(...int) error         { return nil }
func (*Odd) Channel(chan int) (int, error) { return 0, nil }

// Registering lists every exported method that can't be served, with the reason.
func TestUnsuitableMethods(t *testing.T) {
	err := New(Config{}).Register(&Odd{})
	wantError(t, err, `service "Odd" of *dispatch.Odd has methods that can't be served`, "Plain: its last result is not an error", "One: ",
		"Variadic: it is variadic", "Channel: argument 1: no codec carries a chan int", "Lock: ", "Unlock: ", "TryLock: ", "SkipUnsuitable()", "MethodHidden()")
	if strings.Contains(err.Error(), "Fits") {
		t.Error(err)
	}
	wantError(t, New(Config{}).RegisterName("S", &Odd{}), "Plain: ")
	skipped, shown := New(Config{}), New(Config{})
	must(t, skipped.Register(&Odd{}, WithSkipUnsuitable()))
	hidden := []Option{ForMethod("Plain")}
	for _, name := range []string{"One", "Variadic", "Channel", "Lock", "Unlock", "TryLock"} {
		hidden = append(hidden, ForMethod(name, WithHidden()))
	}
	must(t, shown.Register(&Odd{}, hidden...))
	if len(skipped.Methods()) != 1 || len(shown.Methods()) != 2 || shown.Lookup("Odd.Plain") == nil {
		t.Errorf("%v, %v", skipped.Methods(), shown.Methods())
	}
	wantError(t, New(Config{}).Register(&Odd{}, append(hidden, ForMethod("Typo", WithHidden()))...), "no method Typo")
	wantError(t, New(Config{}).RegisterFunc("F", func() error { return nil }, WithSkipUnsuitable()), "SkipUnsuitable")
}

// A service without any suitable method is an error, even with WithSkipUnsuitable.
func TestNoSuitableMethod(t *testing.T) {
	wantError(t, New(Config{}).RegisterName("S", &sync.Mutex{}, WithSkipUnsuitable()), "has no exported methods of suitable type", "Lock: ")
	wantError(t, New(Config{}).RegisterName("S", &sync.Mutex{}), "has no exported methods of suitable type")
	wantError(t, New(Config{}).RegisterName("S", &sync.Mutex{}, WithNetRPC()), "has no exported methods of suitable type")
}
