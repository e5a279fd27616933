package server

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// The runtime's metrics show goroutines that wait for a processor.
func TestProcessors(t *testing.T) {
	var p processors
	p.look()
	var over atomic.Bool
	defer over.Store(true)
	for range 20 * runtime.GOMAXPROCS(0) {
		go func() {
			for !over.Load() {
				continue
			}
		}()
	}
	for end := time.Now().Add(20 * time.Second); ; {
		time.Sleep(20 * time.Millisecond) // real time, which the runtime counts
		if l := p.look(); l.Runnable > 5 && l.Wait > time.Millisecond {
			return
		} else if time.Now().After(end) {
			t.Fatalf("20 goroutines spin for each processor, and the runtime says %+v", l)
		}
	}
}
