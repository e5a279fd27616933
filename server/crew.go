package server

import (
	"context"
	"sync"
	"sync/atomic"
)

// crew runs functions in goroutines that wait for the next when one has returned.
// A new goroutine's stack has to grow twice or three times in a call that is decoded
// by reflection, which costs as much as the rest of it.
type crew struct {
	ctx  context.Context //nolint:containedctx // the server's: who waits ends with it
	wg   *sync.WaitGroup // the server's
	next chan func()
	idle atomic.Int64
}

// maxIdle bounds the goroutines of a crew that wait.
const maxIdle = 64

func newCrew(ctx context.Context, wg *sync.WaitGroup) *crew {
	return &crew{ctx: ctx, wg: wg, next: make(chan func())}
}

// run runs f in a goroutine of the crew. The caller is one that wg waits for.
func (w *crew) run(f func()) {
	select {
	case w.next <- f:
	default:
		w.wg.Go(func() { w.work(f) })
	}
}

// work runs f, and then what comes.
func (w *crew) work(f func()) {
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
