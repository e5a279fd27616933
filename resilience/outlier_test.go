package resilience_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/resilience"
)

// fleet is the samples of instances.
type fleet []resilience.Sample

func newFleet(n int) fleet {
	f := make(fleet, n)
	for i := range f {
		f[i] = resilience.Sample{ID: fmt.Sprint(i), Latency: 10 * time.Millisecond}
	}
	return f
}

// serve counts 100 calls at each instance, of which some fail.
func (f fleet) serve(failed ...uint64) {
	for i := range f {
		f[i].Calls += 100
		if i < len(failed) {
			f[i].Failures += failed[i]
		}
	}
}

func wantOutliers(t *testing.T, what string, got []resilience.Outlier, ids ...string) {
	t.Helper()
	found := make([]string, len(got))
	for i, o := range got {
		found[i] = o.ID
	}
	if fmt.Sprint(found) != fmt.Sprint(ids) {
		t.Errorf("%s: outliers %v, want %v", what, got, ids)
	}
}

func TestOutliersByFailures(t *testing.T) {
	o := resilience.NewOutliers(resilience.OutlierConfig{})
	f := newFleet(10)
	f.serve()
	wantOutliers(t, "nothing fails", o.Look(f))
	f.serve(100, 19)
	wantOutliers(t, "one fails always, one at times", o.Look(f), "0")
	f.serve(100, 50) // 69 of 200 in the window
	wantOutliers(t, "and more often", o.Look(f), "0", "1")
	f.serve(100, 100, 100, 100, 100, 100, 100, 100, 100, 100)
	f.serve(100, 100, 100, 100, 100, 100, 100, 100, 100, 100)
	for range 5 {
		f.serve(100, 100, 100, 100, 100, 100, 100, 100, 100, 100)
		o.Look(f)
	}
	f.serve(100, 100, 100, 100, 100, 100, 100, 100, 100, 100)
	wantOutliers(t, "all fail", o.Look(f))
	for range 6 {
		f.serve()
		o.Look(f)
	}
	f.serve()
	wantOutliers(t, "five seconds later", o.Look(f))
}

func TestOutliersByLatency(t *testing.T) {
	o := resilience.NewOutliers(resilience.OutlierConfig{})
	f := newFleet(3)
	f[0].Latency, f[1].Latency = 100*time.Millisecond, 112*time.Millisecond
	f.serve()
	wantOutliers(t, "100 ms and 112 where 10 are usual, which is three times the median but not 100 ms more", o.Look(f))
	f[0].Latency, f[1].Latency, f[2].Latency = 110*time.Millisecond, 10*time.Millisecond, 300*time.Millisecond
	f.serve()
	wantOutliers(t, "110 ms and 300, now", o.Look(f))
	f[2].Latency = 10 * time.Millisecond // the last calls were of a slow kind
	f.serve()
	wantOutliers(t, "110 ms still", o.Look(f), "0")
	f[1].Latency, f[2].Latency = 40*time.Millisecond, 40*time.Millisecond
	f.serve()
	o.Look(f)
	f.serve()
	wantOutliers(t, "110 ms where 40 are usual", o.Look(f))
}

func TestOutliersThatCannotBeJudged(t *testing.T) {
	o := resilience.NewOutliers(resilience.OutlierConfig{})
	f := newFleet(1)
	f.serve(100)
	wantOutliers(t, "alone", o.Look(f))
	f = append(f, resilience.Sample{ID: "few", Calls: 9, Failures: 9}, resilience.Sample{ID: "fine", Calls: 1000}, resilience.Sample{ID: "also"})
	f[0].Calls, f[0].Failures = 200, 200
	wantOutliers(t, "one with too few calls", o.Look(f), "0")
	f[1].Calls, f[1].Failures = 19, 19
	f[2].Calls, f[3].Calls = 1100, 1000
	wantOutliers(t, "which had more then, where half fail and the better half counts", o.Look(f), "0", "few")
	f[1].Calls, f[1].Failures = 12, 12
	f[2].Calls += 100
	wantOutliers(t, "and began again", o.Look(f), "0")
}

func ExampleOutliers() {
	o := resilience.NewOutliers(resilience.OutlierConfig{})
	for _, out := range o.Look([]resilience.Sample{
		{ID: "a", Calls: 1000, Failures: 3, Latency: 2 * time.Millisecond},
		{ID: "b", Calls: 1000, Failures: 5, Latency: 2 * time.Millisecond},
		{ID: "c", Calls: 1000, Failures: 700, Latency: 1 * time.Millisecond},
		{ID: "d", Calls: 1000, Failures: 2, Latency: 250 * time.Millisecond},
	}) {
		fmt.Println(out.ID, out.Reason)
	}
	// Output:
	// c 70 % of its calls fail, the median is 0 %
	// d its calls take 250ms, the median is 2ms
}
