package resilience_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/resilience"
)

// A quantile is exact or up to 9 % too high, at any scale.
func TestLatencyQuantile(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	for _, scale := range []time.Duration{2 * time.Millisecond, 70 * time.Millisecond, 20 * time.Second} {
		var l resilience.Latency
		for _, i := range rand.Perm(10_000) {
			l.Observe(scale*time.Duration(i+1)/10_000+time.Millisecond, now)
		}
		for _, q := range []float64{0.5, 0.95, 0.999} {
			want := time.Duration(q*float64(scale)) + time.Millisecond
			got, known := l.Quantile(q)
			if !known || got < want || got > want*110/100 {
				t.Errorf("quantile %v of up to %v: %v, %v, want %v", q, scale, got, known, want)
			}
		}
	}
}

// A few samples give no quantile; a quantile is never below a millisecond, nor above 65
// seconds.
func TestLatencyBounds(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	for took, want := range map[time.Duration]time.Duration{
		-1: time.Millisecond, 0: time.Millisecond, time.Microsecond: time.Millisecond, time.Millisecond: time.Millisecond,
		time.Hour: 65536 * time.Millisecond,
	} {
		var l resilience.Latency
		for n := range 100 {
			if got, known := l.Quantile(0.95); known {
				t.Fatalf("%v after %d samples", got, n)
			}
			l.Observe(took, now)
		}
		if got, known := l.Quantile(0.95); !known || got != want {
			t.Errorf("%v: got %v, %v, want %v", took, got, known, want)
		}
	}
}

// Old samples fade, but not before there are newer ones.
func TestLatencyForgets(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	var l resilience.Latency
	observe := func(n int, took time.Duration) {
		for range n {
			l.Observe(took, now)
		}
	}
	want := func(what string, least, most time.Duration) {
		t.Helper()
		if got, known := l.Quantile(0.95); !known || got < least || got > most {
			t.Errorf("%s: %v, %v", what, got, known)
		}
	}
	observe(150, time.Second)
	now = now.Add(time.Hour)
	want("an hour without calls", time.Second, 1100*time.Millisecond)
	for range 10 {
		now = now.Add(10 * time.Second)
		observe(100, 10*time.Millisecond)
	}
	want("100 seconds of quicker calls", 10*time.Millisecond, 11*time.Millisecond)
}

// Methods are kept apart, also in concurrent use, and their number is bounded.
func TestLatenciesOfMethods(t *testing.T) {
	var l resilience.Latencies
	now := time.Unix(1_000_000, 0)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 1024 {
				l.Of(strconv.Itoa(i)).Observe(time.Second, now)
			}
		})
	}
	wg.Wait()
	if l.Of("one more") != nil {
		t.Error("more than 1,024 methods")
	}
	if seven := l.Of("7"); seven == nil || seven != l.Of("7") || seven == l.Of("8") {
		t.Error("a method has not one latency of its own")
	}
}

func ExampleLatencies() {
	var latencies resilience.Latencies
	now := time.Now()
	get := latencies.Of("Shop.Get")
	for i := range 100 {
		get.Observe(time.Duration(i)*time.Millisecond, now)
	}
	p95, known := get.Quantile(0.95)
	fmt.Println(p95.Round(time.Millisecond), known)
	// Output: 99ms true
}
