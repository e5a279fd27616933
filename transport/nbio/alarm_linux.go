package nbio

import (
	"sync"
	"time"
)

// alarm is a deadline that may be changed while a goroutine waits for it.
type alarm struct {
	mu    sync.Mutex
	sets  int           // number of calls of set
	timer *time.Timer   // nil when none was started
	bell  chan struct{} // closed when the time has come
}

// set sets the time; the zero time means never. A time that has passed takes effect at once. An
// alarm that has rung may be set again.
func (a *alarm) set(at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sets++
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
	if a.bell == nil || isClosed(a.bell) {
		a.bell = make(chan struct{})
	}
	if at.IsZero() {
		return
	}
	left := time.Until(at)
	if left <= 0 {
		close(a.bell)
		return
	}
	now := a.sets
	a.timer = time.AfterFunc(left, func() { a.ring(now) })
}

// ring is called by the timer of that set, and does nothing if set was called since.
func (a *alarm) ring(set int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sets == set {
		close(a.bell)
	}
}

// rung returns a channel that is closed at the alarm's time, unless the alarm is set again
// before.
func (a *alarm) rung() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.bell
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
