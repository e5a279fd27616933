package resilience_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/resilience"
)

// spend takes until the budget is empty.
func spend(b *resilience.Budget, now time.Time) (n int) {
	for b.Take(now) {
		n++
	}
	return n
}

func TestBudget(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	b := resilience.NewBudget(0.1, 10)
	if n := spend(b, now); n != 10 {
		t.Errorf("a new budget allows %d retries, want a second's worth", n)
	}
	for range 500 {
		b.Call()
	}
	if n := spend(b, now); n != 50 {
		t.Errorf("500 calls paid for %d retries, want 50", n)
	}
	if n := spend(b, now.Add(2*time.Second)); n != 20 {
		t.Errorf("2 s paid for %d retries, want 20", n)
	}
	if n := spend(b, now.Add(time.Hour)); n != 100 {
		t.Errorf("an hour saved up %d retries, want ten seconds' worth", n)
	}
	if b.Take(now) { // a clock that goes back pays nothing
		t.Error("a retry came from nowhere")
	}
	for range 1_000_000 {
		b.Call()
	}
	if n := spend(b, now); n > 101 {
		t.Errorf("a million calls saved up %d retries", n)
	}
	if new(resilience.Budget).Take(now) {
		t.Error("the zero budget allows something")
	}
}

func TestBudgetIsExactUnderRaces(t *testing.T) {
	b := resilience.NewBudget(0.1, 1)
	now := time.Unix(1_000_000, 0)
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
	b := resilience.NewBudget(0.1, 0) // one retry for ten calls
	for range 25 {
		b.Call()
	}
	now := time.Now()
	fmt.Println(b.Take(now), b.Take(now), b.Take(now))
	// Output: true true false
}
