package pool

import (
	"context"
	"sync"
)

// Life is the lifetime of a client: a context that ends with it, and the goroutines that it waits
// for. It is safe for concurrent use.
type Life struct {
	ctx    context.Context //nolint:containedctx // the client's
	cancel context.CancelFunc

	mu     sync.Mutex // held between the check whether it has ended and the start of a goroutine
	ended  bool
	counts sync.WaitGroup
}

// NewLife returns a Life that has begun.
func NewLife() *Life {
	l := new(Life)
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// Context returns the context that Cancel ends.
func (l *Life) Context() context.Context { return l.ctx }

// Cancel ends the context. Goroutines may still be started.
func (l *Life) Cancel() { l.cancel() }

// End makes Start and Run do nothing from now on, and waits for all goroutines.
func (l *Life) End() {
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	l.counts.Wait()
}

// Go runs f in a goroutine that End waits for. It must be called by a goroutine that End
// waits for, or before End.
func (l *Life) Go(f func()) { l.counts.Go(f) }

// Add makes End wait until Done is called. It is called under the rules of Go.
func (l *Life) Add() { l.counts.Add(1) }

// Done ends what Add has begun.
func (l *Life) Done() { l.counts.Done() }

// Start runs f in a goroutine that End waits for. It returns false, and does nothing, after
// End.
func (l *Life) Start(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.counts.Go(f)
	}
	return !l.ended
}

// Run runs f, and End waits for it. After End it does nothing.
func (l *Life) Run(f func()) {
	l.mu.Lock()
	ended := l.ended
	if !ended {
		l.counts.Add(1)
	}
	l.mu.Unlock()
	if !ended {
		defer l.counts.Done()
		f()
	}
}
