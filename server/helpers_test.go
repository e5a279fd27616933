package server

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
)

// The goroutines of helpers are used again, idle ones are bounded, one that a function has ended
// is replaced, and all end with the server.
func TestCrew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var wg sync.WaitGroup
		ctx, end := context.WithCancel(t.Context())
		w := newHelpers(ctx, &wg)
		ran := 0
		for range 10 {
			w.run(func() { ran++ })
			synctest.Wait()
		}
		if ran != 10 || w.idle.Load() != 1 {
			t.Errorf("%d of 10 functions ran one after the other, and %d goroutines wait; want 1", ran, w.idle.Load())
		}
		w.run(runtime.Goexit)
		synctest.Wait()
		if w.idle.Load() != 0 {
			t.Errorf("%d wait after one was ended, want 0", w.idle.Load())
		}
		hold := make(chan struct{})
		for range 3 * maxIdle {
			w.run(func() { <-hold })
		}
		close(hold)
		synctest.Wait()
		if n := w.idle.Load(); n != maxIdle {
			t.Errorf("%d goroutines wait, want %d", n, maxIdle)
		}
		end()
		wg.Wait()
	})
}
