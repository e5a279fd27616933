package dispatch

import (
	"context"
	"errors"
	"testing"

	"github.com/tandem-rpc/tandem"
)

// half is a typed handler that returns nil for 0. For odd numbers it returns an error
// marked as not executed, like a method that passes on another's refusal.
func half(_ context.Context, n *int) (*int, error) {
	switch {
	case *n == 0:
		return nil, nil
	case *n%2 != 0:
		return nil, &tandem.Error{Code: tandem.OutOfRange, Message: "odd", NotExecuted: true}
	}
	h := *n / 2
	return &h, nil
}

// copyAll is a typed stream handler that sends back what it receives, until 0.
func copyAll(_ context.Context, s *tandem.Stream[int, int]) error {
	for n, err := range s.All() {
		if err != nil {
			return err
		}
		if *n == 0 {
			return &tandem.Error{Code: tandem.OutOfRange, Message: "zero", NotExecuted: true}
		}
		if err := s.Send(n); err != nil {
			return err
		}
	}
	return nil
}

func TestTyped(t *testing.T) {
	table := New(Config{})
	must(t, table.Add(UnaryMethod("S.Half", half)))
	must(t, table.Add(StreamingMethod("S.Copy", copyAll), WithConcurrency(1, 0)))
	wantCall(t, table, "S.Half", "8", "4")
	wantCall(t, table, "S.Half", "0", "0")
	if out, err := callStream(table, "S.Copy", "1", "2"); err != nil || out != "1\n2\n" {
		t.Errorf("got %q, %v", out, err)
	}
	_, unary := call(table, "S.Half", "3")
	_, stream := callStream(table, "S.Copy", "0")
	for _, err := range []error{unary, stream} {
		if tandem.CodeOf(err) != tandem.OutOfRange || !tandem.MayHaveExecuted(err) {
			t.Errorf("got %v, may have executed: %v", err, tandem.MayHaveExecuted(err))
		}
	}
	if m := table.Lookup("S.Copy"); m.Kind != tandem.Streaming || m.MaxConcurrency != 1 || m.In.String() != "int" {
		t.Errorf("%+v", m)
	}
}

// TestTypedKeepsArguments checks that each call has arguments of its own.
func TestTypedKeepsArguments(t *testing.T) {
	var kept []*int
	table := New(Config{})
	must(t, table.Add(UnaryMethod("S.Keep", func(_ context.Context, n *int) (*int, error) {
		kept = append(kept, n)
		return n, errors.ErrUnsupported
	})))
	for _, n := range []string{"1", "2"} {
		_, err := call(table, "S.Keep", n)
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("got %v", err)
		}
	}
	if *kept[0] != 1 || *kept[1] != 2 {
		t.Errorf("kept %d, %d", *kept[0], *kept[1])
	}
}
