package server

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// deaf is a context whose end only those notice who ask.
type deaf struct{ context.Context }

func (deaf) Done() <-chan struct{} { return nil }

// A call whose caller leaves at the moment at which it gets its turn does not
// start, and its turn is the next one's.
func TestTurnOfACallThatIsOver(t *testing.T) {
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
