package nbio

import (
	"sync"
	"time"
)

// alarm rings at a time that may be changed while somebody waits for it.
type alarm struct {
	mu    sync.Mutex
	sets  int           // how often it was set
	timer *time.Timer   // nil when none was started
	bell  chan struct{} // closed when it has rung
}

// set makes it ring at that time, at once if that has passed, and never for the zero
// time. If it had rung it is silent again.
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

// ring is called by the timer of that set, which may not be the last any more.
func (a *alarm) ring(set int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sets == set {
		close(a.bell)
	}
}

// rung returns what is closed when the alarm rings, unless it is set anew before.
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
