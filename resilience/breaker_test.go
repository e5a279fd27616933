package resilience_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/resilience"
)

// calls makes n calls of a millisecond each end one after another, and returns the time after
// the last.
func calls(b *resilience.Breaker, now time.Duration, n int, failed bool) time.Duration {
	for range n {
		began := now
		now += time.Millisecond
		b.Done(began, now, failed)
	}
	return now
}

func wantState(t *testing.T, b *resilience.Breaker, now time.Duration, want resilience.BreakerState) {
	t.Helper()
	if got := b.State(now); got != want {
		t.Errorf("at %v it is %v, want %v", now, got, want)
	}
	if b.Ready(now) != (want != resilience.BreakerOpen) {
		t.Errorf("at %v Ready does not fit its being %v", now, want)
	}
}

func TestBreakerOpensForFailuresInARow(t *testing.T) {
	b := resilience.NewBreaker(resilience.BreakerConfig{})
	now := calls(b, -time.Hour, 1000, false) // times may be before the instant they count from
	now = calls(b, now, 4, true)
	now = calls(b, now, 1, false)
	now = calls(b, now, 4, true)
	wantState(t, b, now, resilience.BreakerClosed)
	now = calls(b, now, 1, true)
	wantState(t, b, now, resilience.BreakerOpen)
	if b.Admit(now) {
		t.Error("an open breaker lets a call through")
	}
}

// alternate makes every nth call fail.
func alternate(b *resilience.Breaker, now time.Duration, count, nth int) time.Duration {
	for i := range count {
		now = calls(b, now, 1, i%nth == 0)
	}
	return now
}

func TestBreakerOpensForTheShareOfFailures(t *testing.T) {
	b := resilience.NewBreaker(resilience.BreakerConfig{Consecutive: -1})
	now := alternate(b, time.Hour, 5000, 3)
	wantState(t, b, now, resilience.BreakerClosed)
	now = calls(b, now+time.Minute, 19, true) // too few, and earlier calls are outside the window
	wantState(t, b, now, resilience.BreakerClosed)
	now = calls(b, now, 1, true)
	wantState(t, b, now, resilience.BreakerOpen)

	b = resilience.NewBreaker(resilience.BreakerConfig{})
	now = alternate(b, time.Hour, 100, 2)
	wantState(t, b, now, resilience.BreakerOpen)
}

func TestBreakerTriesAgain(t *testing.T) {
	b := resilience.NewBreaker(resilience.BreakerConfig{Pause: time.Second, MaxPause: 4 * time.Second})
	now := time.Hour
	began := now
	if !b.Trip(now) || b.Trip(now) {
		t.Error("Trip opens it once")
	}
	for _, pause := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 4 * time.Second} {
		wantState(t, b, now+pause-1, resilience.BreakerOpen)
		now += pause
		if !b.Admit(now) {
			t.Fatalf("after a pause of %v no call is let through", pause)
		}
		if b.Admit(now) {
			t.Error("two calls are let through at a time")
		}
		b.Done(began, now, false) // it began before the breaker opened and does not count
		if b.Admit(now) {
			t.Error("a late answer counts as a probe")
		}
		if !b.Done(now, now, true) {
			t.Error("a probe that fails does not open it")
		}
	}
	now += 4 * time.Second
	for i := range 2 {
		if !b.Admit(now) {
			t.Fatalf("probe %d is not let through", i)
		}
		b.Done(now, now+1, false)
		now++
	}
	wantState(t, b, now, resilience.BreakerClosed)
	b.Done(began, now, true) // a call that began before
	now = calls(b, now, 4, true)
	wantState(t, b, now, resilience.BreakerClosed)
	now = calls(b, now, 1, true)
	wantState(t, b, now+4*time.Second-1, resilience.BreakerOpen) // it failed again too soon: the pause is still long
}

func TestBreakerDoesNotWaitForeverForAProbe(t *testing.T) {
	b := resilience.NewBreaker(resilience.BreakerConfig{Pause: time.Second})
	b.Trip(0)
	if !b.Admit(time.Second) || b.Admit(2*time.Second-1) {
		t.Error("not one call at a time")
	}
	b.Forget()
	if !b.Admit(2*time.Second-1) || !b.Admit(3*time.Second) {
		t.Error("a call that was forgotten, or never ends, blocks the others")
	}
}

// TestBreakerUnderRaces lets many goroutines fail and probe at once; the breaker must let calls
// through in the end.
func TestBreakerUnderRaces(t *testing.T) {
	b := resilience.NewBreaker(resilience.BreakerConfig{Pause: time.Millisecond})
	var clock atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 2000 {
				now := time.Duration(clock.Add(int64(time.Microsecond)))
				if b.Admit(now) {
					b.Done(now, now, now < 8*time.Millisecond)
				}
			}
		})
	}
	wg.Wait()
	if now := time.Duration(clock.Load()) + time.Hour; !b.Ready(now) {
		t.Error("it stays open")
	}
}

func ExampleBreaker() {
	b := resilience.NewBreaker(resilience.BreakerConfig{Consecutive: 3, Pause: time.Second, Probes: 1})
	now := time.Duration(0)
	for range 3 {
		if b.Admit(now) {
			b.Done(now, now, true)
		}
	}
	fmt.Println(b.State(now), b.Admit(now))
	now += time.Second
	fmt.Println(b.State(now), b.Admit(now))
	b.Done(now, now, false)
	fmt.Println(b.State(now))
	// Output:
	// open false
	// half-open true
	// closed
}

// A pause that is too long to be doubled often still works.
func TestBreakerWithALongPause(t *testing.T) {
	b := resilience.NewBreaker(resilience.BreakerConfig{Pause: 24 * time.Hour})
	now := time.Hour
	b.Trip(now)
	for i := range 25 {
		now += 5 * time.Minute
		if !b.Admit(now) {
			t.Fatalf("pause %d is longer than the longest", i)
		}
		b.Done(now, now, true)
		if b.Ready(now + time.Second) {
			t.Errorf("after pause %d there is none", i)
		}
	}
}
