package resilience_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/resilience"
)

// fail makes that many calls fail, one a millisecond, and returns when the last one did.
func fail(b *resilience.Breaker, now time.Duration, calls int) time.Duration {
	for range calls {
		now += time.Millisecond
		b.Done(now, now, true)
	}
	return now
}

func TestBreakerConfigure(t *testing.T) {
	b := resilience.NewBreaker(resilience.BreakerConfig{Consecutive: 10})
	now := fail(b, 0, 4)
	b.Configure(resilience.BreakerConfig{Pause: time.Minute}) // so 5 in a row
	if !b.Closed() {
		t.Error("configuring opened it")
	}
	now = fail(b, now, 1)
	if b.Closed() || b.Ready(now+59*time.Second) {
		t.Error("what was counted before does not count, or the new pause does not")
	}
	b.Configure(resilience.BreakerConfig{Probes: 1})
	if b.Ready(now + 59*time.Second) {
		t.Error("configuring cut the pause short")
	}
	now += 61 * time.Second
	if !b.Admit(now) || !b.Done(now, now, false) || !b.Closed() {
		t.Error("one probe is not enough")
	}
}

func TestBreakerReset(t *testing.T) {
	b := resilience.NewBreaker(resilience.BreakerConfig{Pause: time.Minute})
	now := fail(b, 0, 5)
	b.Reset()
	if !b.Closed() || b.State(now) != resilience.BreakerClosed {
		t.Error("it is not closed")
	}
	now = fail(b, now, 4)
	if !b.Closed() {
		t.Error("failures from before count")
	}
	now = fail(b, now, 1)
	if b.Closed() || !b.Ready(now+61*time.Second) {
		t.Error("its first pause is not the first")
	}
}

func TestOutliersConfigure(t *testing.T) {
	o := resilience.NewOutliers(resilience.OutlierConfig{})
	samples := []resilience.Sample{{ID: "a", Calls: 100}, {ID: "b", Calls: 100, Failures: 15}, {ID: "c", Calls: 100}}
	if got := o.Look(samples); len(got) != 0 {
		t.Errorf("outliers %+v", got)
	}
	o.Configure(resilience.OutlierConfig{FailureRate: 0.1, Window: time.Second})
	for i := range samples {
		samples[i].Calls *= 2
		samples[i].Failures *= 2
	}
	if got := o.Look(samples); len(got) != 1 || got[0].ID != "b" || o.Config().FailureRate != 0.1 || o.Config().MinCalls != 10 {
		t.Errorf("outliers %+v with %+v", got, o.Config())
	}
}

func TestBudgetSet(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	b := resilience.NewBudget(0.1, 10, now)
	b.Set(0, 1, now)
	if n := spend(b, now); n != 10 {
		t.Errorf("%d saved retries stay, want what the new budget may hold, 10", n)
	}
	for range 100 {
		b.Call()
	}
	b.Set(0.5, 2, now) // those calls were counted before
	if n := spend(b, now); n != 0 {
		t.Errorf("%d retries for calls that were made by the budget before", n)
	}
	for range 10 {
		b.Call()
	}
	if n := spend(b, now.Add(time.Second)); n != 7 {
		t.Errorf("%d retries, want 5 for ten calls and 2 for a second", n)
	}
	b.Set(0, 0, now.Add(time.Second))
	if n := spend(b, now.Add(time.Hour)); n != 0 {
		t.Errorf("%d retries of nothing", n)
	}
}

func ExampleBreaker_Configure() {
	b := resilience.NewBreaker(resilience.BreakerConfig{Consecutive: 100})
	b.Configure(resilience.BreakerConfig{Consecutive: 2})
	fail(b, 0, 2)
	fmt.Println(b.State(time.Second))
	b.Reset()
	fmt.Println(b.State(time.Second))
	// Output:
	// open
	// closed
}
