package resilience

import (
	"sync"
	"sync/atomic"
	"time"
)

// Breaker is a circuit breaker: it stops the calls to an instance, or to one of its methods,
// that fail, and tries single calls after a pause before it lets all through again (Nygard,
// "Release It!"; the growing pauses are those of Finagle's failure accrual). It is safe for
// concurrent use.
//
// A Breaker is closed at first: all calls pass. It opens when enough of them fail, or by
// [Breaker.Trip]. When its pause is over it is half open: one call at a time passes. When
// enough of these succeed it closes, when one fails it opens again and pauses twice as long.
//
// Times are durations since some instant, the same for all of a Breaker's methods.
type Breaker struct {
	config BreakerConfig
	state  atomic.Int32
	good   atomic.Int64 // calls that succeeded while closed
	streak atomic.Int32 // failures in a row

	mu      sync.Mutex
	bad     int64         // calls that failed while closed
	marks   []mark        // one a second in which calls failed, within Window
	until   time.Duration // end of the pause
	trips   int           // pauses in a row
	probing bool          // a call that was let through has not ended
	patient time.Duration // until when the Breaker waits for that call
	proven  int           // calls in a row that succeeded while half open
	closed  time.Duration // when it last closed, if it was ever open
	since   time.Duration // when it entered its state, if it was ever open
	kept    time.Duration // until when Force keeps it open or closed
	changed bool          // it was open since it was made or reset
	forced  bool          // Force keeps it, or has kept it
}

// mark is the number of calls until a time.
type mark struct {
	at        time.Duration
	good, bad int64
}

// BreakerConfig sets when a [Breaker] opens and closes. Zero fields have their defaults.
type BreakerConfig struct {
	Window      time.Duration `json:"window,omitzero"`      // time in which failures are counted; 10 s
	MinCalls    int           `json:"minCalls,omitzero"`    // calls in the window below which it does not open; 20
	FailureRate float64       `json:"failureRate,omitzero"` // share of failed calls from which it opens; 0.5
	Consecutive int           `json:"consecutive,omitzero"` // failures in a row that open it as well; 5, negative for never
	Pause       time.Duration `json:"pause,omitzero"`       // the first pause; 5 s
	MaxPause    time.Duration `json:"maxPause,omitzero"`    // the longest pause; 5 min
	Probes      int           `json:"probes,omitzero"`      // calls that must succeed for it to close; 2
}

// BreakerState is what a [Breaker] does with calls.
type BreakerState int32

// The states.
const (
	BreakerClosed   BreakerState = iota // all pass
	BreakerOpen                         // none passes
	BreakerHalfOpen                     // one at a time passes
)

// String returns the state's name: closed, open or half-open.
func (s BreakerState) String() string {
	return [...]string{"closed", "open", "half-open"}[s]
}

// NewBreaker returns a closed Breaker.
func NewBreaker(config BreakerConfig) *Breaker { return &Breaker{config: config.complete()} }

// complete returns the configuration with the defaults.
func (config BreakerConfig) complete() BreakerConfig {
	set(&config.Window, 10*time.Second)
	set(&config.MinCalls, 20)
	set(&config.FailureRate, 0.5)
	set(&config.Consecutive, 5)
	set(&config.Pause, 5*time.Second)
	set(&config.MaxPause, 5*time.Minute)
	set(&config.Probes, 2)
	return config
}

// Config returns the configuration with the defaults.
func (b *Breaker) Config() BreakerConfig {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.config
}

// Force opens or closes the Breaker, and keeps it so until that time, whatever calls do. Then it
// decides again: one that was kept open is half open, one that was kept closed counts the calls of
// its window, also those from before. With a time that is not after now, Force ends what an earlier
// one has begun; if there is none it does nothing.
func (b *Breaker) Force(open bool, now, until time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if until <= now {
		b.endForceLocked(now)
		return
	}
	b.forced, b.kept, b.probing = true, until, false
	if open {
		b.until = until
		b.enterLocked(BreakerOpen, now)
		return
	}
	if !b.Closed() {
		b.closeLocked(now)
	}
}

// endForceLocked ends a Force before its time.
func (b *Breaker) endForceLocked(now time.Duration) {
	if b.isForcedLocked(now) && !b.Closed() {
		b.until = now
	}
	b.forced = false
}

func (b *Breaker) isForcedLocked(now time.Duration) bool { return b.forced && now < b.kept }

// Forced reports whether [Breaker.Force] keeps the Breaker open or closed now, and until when.
func (b *Breaker) Forced(now time.Duration) (until time.Duration, forced bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.isForcedLocked(now) {
		return 0, false
	}
	return b.kept, true
}

// Configure replaces the configuration. The state and the counts stay, and so does the length
// of a pause that has begun.
func (b *Breaker) Configure(config BreakerConfig) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.config = config.complete()
}

// Reset makes the Breaker as new, and so closes it. It also ends what [Breaker.Force] has begun.
func (b *Breaker) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bad, b.marks, b.until, b.trips, b.probing, b.proven, b.closed, b.forced, b.changed = 0, nil, 0, 0, false, 0, 0, false, false
	b.good.Store(0)
	b.streak.Store(0)
	b.state.Store(int32(BreakerClosed))
}

// set gives a setting its default.
func set[T comparable](setting *T, standard T) {
	var zero T
	if *setting == zero {
		*setting = standard
	}
}

// State returns the state in which the Breaker would be for a call now.
func (b *Breaker) State(now time.Duration) BreakerState {
	if b.Closed() {
		return BreakerClosed
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stateLocked(now)
}

// stateLocked makes an open Breaker half open when the pause is over.
func (b *Breaker) stateLocked(now time.Duration) BreakerState {
	if b.state.Load() == int32(BreakerOpen) && now >= b.until {
		b.enterLocked(BreakerHalfOpen, b.until)
		b.proven, b.probing = 0, false
	}
	return BreakerState(b.state.Load())
}

// Closed reports whether the Breaker lets all calls through. It is one atomic load.
func (b *Breaker) Closed() bool { return b.state.Load() == int32(BreakerClosed) }

// Ready reports whether a call would be let through now.
func (b *Breaker) Ready(now time.Duration) bool {
	if b.Closed() {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.readyLocked(now)
}

func (b *Breaker) readyLocked(now time.Duration) bool {
	switch b.stateLocked(now) {
	case BreakerClosed:
		return true
	case BreakerHalfOpen:
		return !b.probing || now >= b.patient
	}
	return false
}

// Admit reports whether a call may be made. If so, the caller calls Done after it, or Forget if
// the call was not made.
func (b *Breaker) Admit(now time.Duration) bool {
	if b.Closed() {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.readyLocked(now) {
		return false
	}
	if b.state.Load() == int32(BreakerHalfOpen) {
		b.probing = true
		b.patient = now + b.config.Pause // a call may never end
	}
	return true
}

// Forget undoes an Admit.
func (b *Breaker) Forget() {
	if b.Closed() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing = false
}

// Done counts a call that began and ended at these times. It reports whether that opened or
// closed the Breaker.
func (b *Breaker) Done(began, now time.Duration, failed bool) bool {
	if !failed && b.Closed() {
		b.good.Add(1)
		if b.streak.Load() != 0 {
			b.streak.Store(0)
		}
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch b.stateLocked(now) {
	case BreakerClosed:
		return failed && (b.trips == 0 || began >= b.closed) && b.failLocked(now)
	case BreakerHalfOpen:
		return began >= b.until && b.probedLocked(now, failed)
	}
	return false // a call from before it opened
}

// failLocked counts a failure, and opens the Breaker if the limit is reached. The window begins
// with the first failure in it: calls that succeeded before that do not count.
func (b *Breaker) failLocked(now time.Duration) bool {
	for len(b.marks) > 0 && b.marks[0].at < now-b.config.Window {
		b.marks = b.marks[1:]
	}
	good := b.good.Load()
	if n := len(b.marks); n == 0 || now-b.marks[n-1].at >= time.Second {
		b.marks = append(b.marks, mark{now, good, b.bad})
	}
	b.bad++
	streak := int(b.streak.Add(1))
	failed := b.bad - b.marks[0].bad
	calls := failed + good - b.marks[0].good
	if b.isForcedLocked(now) {
		return false
	}
	if b.config.Consecutive > 0 && streak >= b.config.Consecutive ||
		calls >= int64(b.config.MinCalls) && float64(failed) >= b.config.FailureRate*float64(calls) {
		b.openLocked(now)
		return true
	}
	return false
}

// probedLocked counts a call that was made while half open.
func (b *Breaker) probedLocked(now time.Duration, failed bool) bool {
	b.probing = false
	if failed {
		b.openLocked(now)
		return true
	}
	b.proven++
	if b.proven < b.config.Probes {
		return false
	}
	b.closeLocked(now)
	return true
}

func (b *Breaker) closeLocked(now time.Duration) {
	b.closed = now
	b.marks, b.bad = nil, 0
	b.streak.Store(0)
	b.enterLocked(BreakerClosed, now)
}

// enterLocked changes the state. A state that is entered again, as by a longer Force, stays as old
// as it is.
func (b *Breaker) enterLocked(s BreakerState, now time.Duration) {
	if !b.changed || b.state.Load() != int32(s) {
		b.since = now
	}
	b.changed = true
	b.state.Store(int32(s))
}

// Since returns when the Breaker entered the state that it has now; false if it was always closed.
func (b *Breaker) Since(now time.Duration) (time.Duration, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stateLocked(now)
	return b.since, b.changed
}

// Trip opens the Breaker if it is closed and not kept so by [Breaker.Force]. It reports whether it
// did.
func (b *Breaker) Trip(now time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stateLocked(now) != BreakerClosed || b.isForcedLocked(now) {
		return false
	}
	b.openLocked(now)
	return true
}

// openLocked begins a pause. It is twice as long as the one before, unless the Breaker has been
// closed for MaxPause.
func (b *Breaker) openLocked(now time.Duration) {
	if b.trips > 0 && b.Closed() && now-b.closed >= b.config.MaxPause {
		b.trips = 0
	}
	pause, doubled := b.config.MaxPause, min(b.trips, 20)
	if b.config.Pause <= pause>>doubled { // else it would be longer, or not fit into 64 bits
		pause = b.config.Pause << doubled
	}
	b.until = now + pause
	b.trips++
	b.enterLocked(BreakerOpen, now)
}
