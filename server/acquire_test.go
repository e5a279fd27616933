package server

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// deaf is a context whose end shows in Err, but not in Done.
type deaf struct{ context.Context }

func (deaf) Done() <-chan struct{} { return nil }

// A call that is canceled at the moment when it gets a slot does not start, and its slot goes
// to the next call.
func TestLimiterSkipsACanceledCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(1, 10, "the test")
		if err := l.acquire(t.Context(), new(gauge)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		acquired := make(chan error, 1)
		go func() { acquired <- l.acquire(deaf{ctx}, new(gauge)) }()
		synctest.Wait()
		cancel()
		<-l.slots
		if err := <-acquired; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if err := l.acquire(ctx, new(gauge)); !errors.Is(err, context.Canceled) {
			t.Errorf("free, but over: %v", err)
		}
		if err := l.acquire(t.Context(), new(gauge)); err != nil {
			t.Error(err)
		}
	})
}
