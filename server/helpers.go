package server

import (
	"context"
	"sync"
	"sync/atomic"
)

// helpers runs functions in goroutines, which wait for the next function when one has returned. In
// a new goroutine the stack has to grow two or three times during a call that is decoded by
// reflection, which takes as long as the rest of the call.
type helpers struct {
	ctx  context.Context //nolint:containedctx // the server's: idle goroutines end with it
	wg   *sync.WaitGroup // the server's
	next chan func()
	idle atomic.Int64
}

// maxIdle bounds the goroutines of helpers that wait.
const maxIdle = 64

func newHelpers(ctx context.Context, wg *sync.WaitGroup) *helpers {
	return &helpers{ctx: ctx, wg: wg, next: make(chan func())}
}

// run runs f in a goroutine of helpers. The caller must be counted in wg.
func (w *helpers) run(f func()) {
	select {
	case w.next <- f:
	default:
		w.wg.Go(func() { w.work(f) })
	}
}

// work runs f, and then what run passes to it.
func (w *helpers) work(f func()) {
	for {
		f()
		if w.idle.Add(1) > maxIdle {
			w.idle.Add(-1)
			return
		}
		select {
		case f = <-w.next:
			w.idle.Add(-1)
		case <-w.ctx.Done():
			return
		}
	}
}
