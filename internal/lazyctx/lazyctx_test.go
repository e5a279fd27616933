package lazyctx_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem/internal/lazyctx"
)

type key struct{}

// Whether Done was asked for or not, a Context ends like one of package context.
func TestEnds(t *testing.T) {
	errEarly := errors.New("early")
	for name, end := range map[string]struct {
		by   func(cancel func(), c *lazyctx.Context)
		want error
	}{
		"not at all":  {func(func(), *lazyctx.Context) {}, nil},
		"by Cancel":   {func(_ func(), c *lazyctx.Context) { c.Cancel() }, context.Canceled},
		"its parent":  {func(cancel func(), _ *lazyctx.Context) { cancel() }, context.Canceled},
		"in time":     {func(func(), *lazyctx.Context) { time.Sleep(2 * time.Second) }, context.DeadlineExceeded},
		"twice":       {func(_ func(), c *lazyctx.Context) { c.Cancel(); time.Sleep(time.Second) }, context.Canceled},
		"twice, late": {func(_ func(), c *lazyctx.Context) { time.Sleep(2 * time.Second); _ = c.Err(); c.Cancel() }, context.DeadlineExceeded},
	} {
		for _, asked := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				parent, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, "value"))
				defer cancel(nil)
				var c lazyctx.Context
				c.Init(parent, time.Now().Add(time.Second))
				if asked {
					select {
					case <-c.Done():
						t.Errorf("%s: it has ended before", name)
					default:
					}
				}
				end.by(func() { cancel(errEarly) }, &c)
				synctest.Wait()
				if got := c.Err(); !errors.Is(got, end.want) {
					t.Errorf("%s, asked %v: %v, want %v", name, asked, got, end.want)
				}
				select {
				case <-c.Done():
					if end.want == nil {
						t.Errorf("%s, asked %v: Done is closed", name, asked)
					}
				default:
					if end.want != nil {
						t.Errorf("%s, asked %v: Done is open", name, asked)
					}
				}
				if got := c.Err(); !errors.Is(got, end.want) {
					t.Errorf("%s, asked %v, again: %v, want %v", name, asked, got, end.want)
				}
				if c.Value(key{}) != "value" {
					t.Errorf("%s: no value", name)
				}
				c.Cancel() // the timer ends
			})
		}
	}
}

// Contexts of package context that are derived from a Context end with it, without a goroutine each.
func TestDerived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c lazyctx.Context
		c.Init(t.Context(), time.Time{})
		child, cancel := context.WithCancel(&c)
		defer cancel()
		called := false
		context.AfterFunc(&c, func() { called = true })
		c.Cancel()
		synctest.Wait()
		if child.Err() == nil || !called {
			t.Errorf("the child's error is %v, AfterFunc was called: %v", child.Err(), called)
		}
	})
}

// The deadline is the earlier one of the Context's own and its parent's.
func TestDeadline(t *testing.T) {
	now := time.Now()
	parent, cancel := context.WithDeadline(t.Context(), now.Add(time.Minute))
	defer cancel()
	for own, want := range map[time.Time]time.Time{
		{}:                   now.Add(time.Minute),
		now.Add(time.Hour):   now.Add(time.Minute),
		now.Add(time.Second): now.Add(time.Second),
	} {
		var c lazyctx.Context
		c.Init(parent, own)
		if got, ok := c.Deadline(); !ok || !got.Equal(want) {
			t.Errorf("%v %v, want %v", got, ok, want)
		}
	}
}

// Split takes a context apart.
func TestSplit(t *testing.T) {
	soon := time.Now().Add(time.Second)
	parent, cancel := context.WithDeadline(t.Context(), soon)
	defer cancel()
	c := lazyctx.With(parent, soon.Add(time.Hour))
	defer c.Cancel()
	if p, at := lazyctx.Split(c); p != parent || !at.Equal(soon) {
		t.Errorf("%v, %v", p, at)
	}
	if p, at := lazyctx.Split(parent); p != parent || !at.Equal(soon) {
		t.Errorf("%v, %v", p, at)
	}
	if _, at := lazyctx.Split(t.Context()); !at.IsZero() {
		t.Error(at)
	}
}

// Everything may be called at the same time.
func TestTogether(t *testing.T) {
	for range 200 {
		var c lazyctx.Context
		c.Init(t.Context(), time.Now().Add(time.Hour))
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { <-c.Done() })
			wg.Go(func() { _ = c.Err() })
			wg.Go(func() { c.Value(key{}) })
			wg.Go(c.Cancel)
		}
		wg.Wait()
		if !errors.Is(c.Err(), context.Canceled) {
			t.Fatal(c.Err())
		}
	}
}

func TestAllocations(t *testing.T) {
	var c lazyctx.Context
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() {
		c = lazyctx.Context{}
		c.Init(ctx, time.Now().Add(time.Hour))
		if c.Err() != nil {
			t.Error(c.Err())
		}
		c.Cancel()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
