package transport

import (
	"testing"
	"time"
)

// A reader that has checked the time, and is preempted before it waits, still notices that its
// deadline has passed.
func TestDeadlineBetweenLookAndWait(t *testing.T) {
	h := newHalf()
	h.setDeadline(&h.readBy, time.Now().Add(2*time.Millisecond))
	done := make(chan struct{})
	go func() { // as half.read, with a pause
		defer close(done)
		h.mu.Lock()
		defer h.mu.Unlock()
		for !h.readBy.passed() {
			time.Sleep(20 * time.Millisecond) // as if preempted: the deadline passes
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
