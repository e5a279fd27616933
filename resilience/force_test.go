package resilience_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/resilience"
)

func wantForced(t *testing.T, b *resilience.Breaker, now, until time.Duration) {
	t.Helper()
	if got, forced := b.Forced(now); got != until || forced != (until != 0) {
		t.Errorf("at %v it is forced: %v until %v, want %v", now, forced, got, until)
	}
}

func TestBreakerIsForcedOpen(t *testing.T) {
	b := resilience.NewBreaker(resilience.BreakerConfig{})
	now := calls(b, time.Hour, 10, false)
	until := now + time.Minute
	b.Force(true, now, until)
	wantForced(t, b, now, until)
	now = calls(b, now, 10, false) // begun before
	b.Configure(resilience.BreakerConfig{Pause: time.Second})
	wantState(t, b, until-1, resilience.BreakerOpen)
	if b.Trip(now) || b.Admit(until-1) {
		t.Error("it was not open")
	}
	wantForced(t, b, until, 0)
	wantState(t, b, until, resilience.BreakerHalfOpen)
	calls(b, until, 2, false)
	wantState(t, b, until+time.Second, resilience.BreakerClosed)
}

func TestBreakerIsForcedClosed(t *testing.T) {
	b := resilience.NewBreaker(resilience.BreakerConfig{})
	now := calls(b, 0, 5, true)
	wantState(t, b, now, resilience.BreakerOpen)
	until := now + time.Minute
	b.Force(false, now, until)
	now = calls(b, now, 1000, true)
	wantState(t, b, now, resilience.BreakerClosed)
	if b.Trip(now) {
		t.Error("it was tripped")
	}
	calls(b, until, 1, true)
	wantState(t, b, until+time.Millisecond, resilience.BreakerOpen)
}

func TestForceOfBreakerEnds(t *testing.T) {
	b := resilience.NewBreaker(resilience.BreakerConfig{})
	b.Force(false, time.Second, time.Second) // there is none to end
	wantState(t, b, time.Second, resilience.BreakerClosed)
	b.Force(true, time.Second, time.Hour)
	b.Force(false, time.Minute, 0)
	wantForced(t, b, time.Minute, 0)
	wantState(t, b, time.Minute, resilience.BreakerHalfOpen)
	b.Force(false, time.Minute, time.Hour)
	b.Reset()
	wantForced(t, b, time.Minute, 0)
	now := calls(b, time.Minute, 5, true)
	wantState(t, b, now, resilience.BreakerOpen)
	b.Force(true, now, 0) // it is open by itself, and goes on to be
	wantState(t, b, now, resilience.BreakerOpen)
}

// An operator keeps a breaker open for an hour.
func ExampleBreaker_Force() {
	b := resilience.NewBreaker(resilience.BreakerConfig{Pause: time.Second})
	b.Force(true, 0, time.Hour)
	until, forced := b.Forced(time.Minute)
	fmt.Println(b.State(time.Minute), forced, until)
	fmt.Println(b.State(time.Hour), b.Config().Pause, b.Config().MinCalls)
	// Output:
	// open true 1h0m0s
	// half-open 1s 20
}

// Since is when the state was entered: a longer Force leaves it, and a pause that is over has ended
// at its end, not when that was seen.
func TestBreakerSince(t *testing.T) {
	b := resilience.NewBreaker(resilience.BreakerConfig{Pause: time.Second})
	want := func(now, since time.Duration, changed bool) {
		t.Helper()
		if got, ok := b.Since(now); ok != changed || ok && got != since {
			t.Errorf("at %v it is since %v, %v; want %v, %v", now, got, ok, since, changed)
		}
	}
	want(0, 0, false)
	b.Force(true, time.Minute, 2*time.Minute)
	want(time.Minute, time.Minute, true)
	b.Force(true, 90*time.Second, 3*time.Minute)
	want(90*time.Second, time.Minute, true)
	want(10*time.Minute, 3*time.Minute, true)
	now := calls(b, 10*time.Minute, 2, false)
	wantState(t, b, now, resilience.BreakerClosed)
	if since, ok := b.Since(now); !ok || since < 10*time.Minute {
		t.Errorf("closed since %v, %v", since, ok)
	}
	b.Trip(now + time.Second)
	want(now+time.Second, now+time.Second, true)
	b.Reset()
	want(now+time.Minute, 0, false)
}
