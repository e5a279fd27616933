package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// burden is what an overloaded server's handlers do.
type burden struct {
	kind  string
	pool  chan struct{}
	loops int // that take a tenth of a millisecond
}

func newBurden(kind string) *burden {
	switch kind {
	case "":
		return nil
	case burdenCPU:
		return &burden{kind: kind, loops: calibrate(100 * time.Microsecond)}
	}
	return &burden{kind: kind, pool: make(chan struct{}, poolSize)}
}

// calibrate returns how many loops take so long, as far as the fastest of some tries says.
func calibrate(d time.Duration) int {
	const n = 5_000_000
	best := time.Hour
	for range 5 {
		began := time.Now()
		spin(n)
		best = min(best, time.Since(began))
	}
	return int(float64(n) * float64(d) / float64(best))
}

var spun atomic.Uint64 // so that the compiler keeps the loop

func spin(loops int) {
	x := uint64(1)
	for range loops {
		x = x*6364136223846793005 + 1442695040888963407
	}
	spun.Store(x)
}

// bear does the work of a call.
func (b *burden) bear(ctx context.Context) error {
	if b.kind == burdenCPU {
		const parts = 10
		for range parts {
			if err := ctx.Err(); err != nil {
				return err
			}
			spin(b.loops)
		}
		return nil
	}
	if b.kind == burdenIgnorant {
		ctx = context.Background()
	}
	select {
	case b.pool <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	time.Sleep(poolHold)
	<-b.pool
	return nil
}

// overload measures what the server can do, offers a multiple of it, and then less. In a
// control arm it offers half of it.
func (l *load) overload(out io.Writer) {
	capacity := l.measure()
	times, duration, after := l.plan.Overload, l.plan.Duration, overloadAfter
	aside := l.plan.Beside
	if l.plan.Calm {
		times, after = calm, 0
		if aside.Share > 0 { // it has its part of the same
			aside.Share *= calm
			times -= aside.Share
		}
	}
	began := time.Now()
	var besides sync.WaitGroup
	besides.Go(func() { l.rate(began, aside.Variant, aside.rate(capacity), duration+after) })
	l.rate(began, l.variant(), times*capacity, duration)
	ended := time.Now()
	l.rate(ended, l.variant(), (overloadLow-aside.Share)*capacity, after)
	besides.Wait()
	l.calls.Wait()
	fmt.Fprintf(out, "capacity "+capacityFormat+"\n", capacity, began.UnixNano(), ended.UnixNano())
}

// calm is how much of what a server can do a control arm offers.
const calm = 0.5

const capacityFormat = "%f %d %d"

// variant is that of the calls that overload the server.
func (l *load) variant() string {
	if len(l.plan.Variants) > 0 {
		return l.plan.Variants[0]
	}
	return variantDefault
}

// measure returns how many calls a second the server does for some callers that wait for each.
func (l *load) measure() float64 {
	const callers = 32
	var done atomic.Int64
	var all sync.WaitGroup
	end := time.Now().Add(measuring)
	for range callers {
		all.Go(func() {
			for time.Now().Before(end) {
				ctx, cancel := context.WithTimeout(context.Background(), l.plan.Deadline)
				if _, err := l.caller.call(ctx, l.variant(), appendRequest(0, 0, 0)); err == nil {
					done.Add(1)
				}
				cancel()
			}
		})
	}
	all.Wait()
	return float64(done.Load()) / measuring.Seconds()
}

// rate begins calls of a variant at a rate, from then on for some time.
func (l *load) rate(from time.Time, variant string, rate float64, last time.Duration) {
	for i := range int(rate * last.Seconds()) {
		due := from.Add(time.Duration(float64(i) / rate * float64(time.Second)))
		if wait := time.Until(due); wait > 0 {
			time.Sleep(wait)
		}
		l.calls.Go(func() { l.call(due, variant, l.plan.Size, l.plan.Deadline) })
	}
	time.Sleep(time.Until(from.Add(last)))
}
