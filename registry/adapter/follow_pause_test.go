package adapter

import (
	"testing"
	"time"
)

// The longest pause grows to 800 ms, stays there up to failure 8, and then grows to 5 s.
func TestLongestPause(t *testing.T) {
	for failures, ms := range map[int]int{0: 100, 1: 200, 2: 400, 3: 800, 8: 800, 9: 1600, 10: 3200, 11: 5000, 100: 5000} {
		if got, want := longestPause(failures), time.Duration(ms)*time.Millisecond; got != want {
			t.Errorf("after %d failures: %v, want %v", failures, got, want)
		}
	}
}
