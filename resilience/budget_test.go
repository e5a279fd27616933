package resilience_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/resilience"
)

// spend takes tokens until the budget is empty.
func spend(b *resilience.Budget, now time.Time) (n int) {
	for b.Take(now) {
		n++
	}
	return n
}

func TestBudget(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	b := resilience.NewBudget(0.1, 10, now)
	want := func(what string, n int) {
		t.Helper()
		if got := spend(b, now); got != n {
			t.Errorf("%s: %d retries, want %d", what, got, n)
		}
	}
	calls := func(n int) {
		for range n {
			b.Call()
		}
	}
	want("new", 100)
	calls(500)
	want("500 calls", 50)
	now = now.Add(2 * time.Second)
	want("2 s", 20)
	now = now.Add(time.Hour)
	want("an idle hour saves up ten seconds", 100)
	now = now.Add(-time.Minute)
	want("a clock that goes back", 0)
	now = now.Add(2 * time.Minute)
	spend(b, now)
	calls(50_000)
	now = now.Add(10 * time.Second)
	want("5,000 calls a second for 10 s", 5100)
	calls(1_000_000)
	now = now.Add(1000 * time.Second)
	want("1,000 calls a second: ten seconds of them", 1100)
	if new(resilience.Budget).Take(now) {
		t.Error("the zero budget allows something")
	}
}

func TestBudgetIsExactUnderRaces(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	b := resilience.NewBudget(0.1, 1, now)
	spend(b, now)
	var wg sync.WaitGroup
	var taken atomic.Int64
	for range 8 {
		wg.Go(func() {
			for range 100 {
				b.Call()
				if b.Take(now) {
					taken.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if n := taken.Load() + int64(spend(b, now)); n != 80 {
		t.Errorf("800 calls paid for %d retries, want 80", n)
	}
}

func ExampleBudget() {
	now := time.Now()
	b := resilience.NewBudget(0.1, 0, now) // one retry for ten calls
	for b.Take(now) {
		// Takes the tokens of a new budget.
	}
	for range 25 {
		b.Call()
	}
	fmt.Println(b.Take(now), b.Take(now), b.Take(now))
	// Output: true true false
}

// Tokens can be saved up even if retries, and calls of Left, are frequent.
func TestBudgetLearnsThePaceBetweenRetries(t *testing.T) {
	now := time.Now()
	b := resilience.NewBudget(0.1, 10, now)
	spend(b, now)
	for range 100 {
		for range 1000 {
			b.Call()
		}
		now = now.Add(100 * time.Millisecond)
		b.Take(now)
	}
	if n := spend(b, now); n < 9000 {
		t.Errorf("%d retries were saved up in ten seconds with 1,000 a second", n)
	}
}
