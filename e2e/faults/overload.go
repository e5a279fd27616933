package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// burden is the work that the handlers of an overloaded server do instead of sleeping.
type burden struct {
	kind  string
	pool  chan struct{}
	loops int // number of spin loops that take 0.1 ms
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

// calibrate returns how many loops of spin take d, from the fastest of five measurements.
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

var spun atomic.Uint64 // keeps the compiler from removing the loop in spin

func spin(loops int) {
	x := uint64(1)
	for range loops {
		x = x*6364136223846793005 + 1442695040888963407
	}
	spun.Store(x)
}

// bear does the work of one call.
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

// overload measures the server's capacity. Then it offers Overload times the capacity for
// Duration, and overloadLow of the capacity for overloadAfter. In a control arm it offers only
// calm of the capacity, for Duration.
func (l *load) overload(out io.Writer) {
	capacity := l.measure()
	times, duration, after := l.plan.Overload, l.plan.Duration, overloadAfter
	aside := l.plan.Beside
	if l.plan.Calm {
		times, after = calm, 0
		if aside.Share > 0 { // aside is part of the calm load
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

// calm is the load of a control arm, as a share of the server's capacity.
const calm = 0.5

const capacityFormat = "%f %d %d"

// variant returns the variant of the calls that overload the server.
func (l *load) variant() string {
	if len(l.plan.Variants) > 0 {
		return l.plan.Variants[0]
	}
	return variantDefault
}

// measure returns the server's capacity in calls a second: what 32 callers reach in a closed
// loop.
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

// rate begins calls of a variant at a rate (calls a second) during last, beginning at from. It
// does not wait for responses, and returns at from + last.
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
