package transport

import (
	"testing"
	"time"
)

// A reader that has looked at the time, and loses the processor before it
// waits, still learns that its deadline has passed.
func TestDeadlineBetweenLookAndWait(t *testing.T) {
	h := newHalf()
	h.setDeadline(&h.readBy, time.Now().Add(2*time.Millisecond))
	done := make(chan struct{})
	go func() { // as half.read, with a pause
		defer close(done)
		h.mu.Lock()
		defer h.mu.Unlock()
		for !h.readBy.passed() {
			time.Sleep(20 * time.Millisecond) // loses the processor: the deadline passes
			h.cond.Wait()
		}
	}()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		t.Error("the reader sleeps for ever")
		h.close(nil, true)
	}
}
