package resilience_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/resilience"
)

// The ceiling doubles up to the longest pause.
func TestBackoff(t *testing.T) {
	b := resilience.Backoff{First: 100 * time.Millisecond, Most: 3 * time.Second}
	for failures, ms := range map[int]int{0: 100, 1: 200, 2: 400, 3: 800, 4: 1600, 5: 3000, 6: 3000, 19: 3000, 20: 3000, 64: 3000, 100: 3000} {
		ceiling := time.Duration(ms) * time.Millisecond
		if p := b.Pause(failures, 0); p != time.Millisecond {
			t.Errorf("after %d failures, the shortest pause is %v", failures, p)
		}
		if p := b.Pause(failures, 0.5); p != ceiling/2+time.Millisecond {
			t.Errorf("after %d failures, half way: %v, want half of %v", failures, p, ceiling)
		}
	}
}

func ExampleBackoff() {
	b := resilience.Backoff{First: 100 * time.Millisecond, Most: 3 * time.Second}
	const chance = 0.5 // draw it: rand.Float64()
	for failures := range 4 {
		fmt.Println(b.Pause(failures, chance))
	}
	// Output:
	// 51ms
	// 101ms
	// 201ms
	// 401ms
}
