package loadtest

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
)

// wait is a call that takes a time, unless its context ends.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return tandem.Errorf(tandem.Canceled, "canceled")
	}
}

// do runs a load in virtual time.
func do(ctx context.Context, load Load, call Call) *Result {
	r := Run{Load: load, Call: call, pause: time.Sleep}
	return r.Do(ctx)
}

// TestStallShowsInTheOpenLoop: a server that stops for a second delays each call that was due in
// that second, and none is sent later than it was due. A closed loop sees one late call.
func TestStallShowsInTheOpenLoop(t *testing.T) {
	slow := func(load Load) (n, all int64, late float64) {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			res := do(t.Context(), load, func(ctx context.Context) (int, error) {
				at := time.Since(begin)
				if at >= 2*time.Second && at < 3*time.Second {
					return 0, wait(ctx, 3*time.Second-at)
				}
				return 0, wait(ctx, 10*time.Millisecond)
			})
			for _, b := range res.Histogram {
				if b.From >= 20 {
					n += b.Calls
				}
			}
			all, late = res.Calls.OK, res.Generator.Late.Max
		})
		return n, all, late
	}
	if n, all, late := slow(open(Stage{100, 5 * time.Second})); n != 98 || all != 500 || late > 0.01 {
		t.Errorf("open loop: %d of %d calls were slow, %v ms late", n, all, late)
	}
	if n, all, _ := slow(Load{Stages: []Stage{{Duration: 5 * time.Second}}, Callers: 1, MaxInFlight: 1}); n != 1 || all < 400 || all > 401 {
		t.Errorf("closed loop: %d of %d calls were slow", n, all)
	}
}

// TestLatencyCountsFromWhenACallWasDue: a generator that stops for a second counts that.
func TestLatencyCountsFromWhenACallWasDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stalled := false
		r := Run{Load: open(Stage{100, 3 * time.Second}), Call: func(context.Context) (int, error) { return 0, nil }}
		start := time.Now()
		r.pause = func(d time.Duration) {
			if !stalled && time.Since(start) > time.Second {
				stalled = true
				d = time.Second
			}
			time.Sleep(d)
		}
		res := r.Do(t.Context())
		if res.Calls.OK != 300 || res.Latency.Max < 990 || res.Generator.Late.Max < 990 || res.Latency.P50 > 1 {
			t.Errorf("%+v, %+v, late %+v", res.Calls, res.Latency, res.Generator.Late)
		}
		if len(res.Warnings) != 1 || !strings.Contains(res.Warnings[0], "could not keep up") {
			t.Errorf("warnings %q", res.Warnings)
		}
	})
}

// TestInFlightIsBounded: calls that are due beyond the bound are counted, and none is missing.
func TestInFlightIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		load := open(Stage{100, 4 * time.Second})
		load.MaxInFlight = 50
		var inFlight, most atomic.Int64
		res := do(t.Context(), load, func(ctx context.Context) (int, error) {
			most.Store(max(most.Load(), inFlight.Add(1)))
			defer inFlight.Add(-1)
			return 0, wait(ctx, time.Second)
		})
		c := res.Calls
		if c.Due != 400 || c.NotSent < 150 || c.NotSent > 250 || c.OK+c.NotSent != 400 || most.Load() != 50 {
			t.Errorf("%+v, %d in flight", c, most.Load())
		}
		if want := float64(c.NotSent) / 400; res.Errors != want || res.Rate > 51 {
			t.Errorf("errors %v, rate %v", res.Errors, res.Rate)
		}
		if len(res.Warnings) != 1 || !strings.Contains(res.Warnings[0], "--max-in-flight") {
			t.Errorf("warnings %q", res.Warnings)
		}
	})
}

// TestWarmupAndStages: calls of the warm-up are made and not counted; stages are counted apart.
func TestWarmupAndStages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		load := open(Stage{10, 2 * time.Second}, Stage{100, time.Second})
		load.Warmup = 1500 * time.Millisecond
		begin := time.Now()
		var made atomic.Int64
		res := do(t.Context(), load, func(ctx context.Context) (int, error) {
			if made.Add(1); time.Since(begin) < load.Warmup {
				return 0, tandem.Errorf(tandem.Internal, "cold")
			}
			return 8, wait(ctx, time.Millisecond)
		})
		if made.Load() != 135 || res.Calls.OK != 120 || res.Calls.Failed != 0 || len(res.Failures) != 0 || res.Rate != 40 || res.Bytes.Response != 8 {
			t.Errorf("%d calls, %+v, rate %v", made.Load(), res.Calls, res.Rate)
		}
		if s := res.Stages; len(s) != 2 || s[0].Calls.OK != 20 || s[0].Rate != 10 || s[1].Calls.OK != 100 || s[1].Rate != 100 || s[1].P50 < 0.99 || s[1].P50 > 1.01 {
			t.Errorf("stages %+v", s)
		}
		var rates []int64
		for _, s := range res.Seconds {
			rates = append(rates, s.Rate)
		}
		if len(rates) != 3 || rates[0] != 10 || rates[1] != 10 || rates[2] != 100 {
			t.Errorf("seconds %+v", res.Seconds)
		}
		if took := time.Since(begin); took > 4501*time.Millisecond {
			t.Errorf("it took %v", took)
		}
	})
}

// TestFailures: failed calls have codes, an example and latencies of their own.
func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		res := do(t.Context(), open(Stage{100, time.Second}), func(ctx context.Context) (int, error) {
			n := calls.Add(1)
			switch {
			case n%10 == 0:
				return 0, tandem.Errorf(tandem.NotFound, "no book %d", n)
			case n == 55:
				return 0, errors.New("odd")
			}
			return 0, wait(ctx, 100*time.Millisecond)
		})
		if res.Calls.OK != 89 || res.Calls.Failed != 11 || res.Errors != 0.11 || res.Latency.Min < 99 || res.Failed == nil || res.Failed.Max > 1 {
			t.Errorf("%+v, %+v, failed %+v", res.Calls, res.Latency, res.Failed)
		}
		if f := res.Failures; len(f) != 2 || f[0].Code != "not found" || f[0].Calls != 10 || !strings.Contains(f[0].Example, "no book 10") || f[1].Code != "unknown" {
			t.Errorf("%+v", f)
		}
	})
}

// TestInterrupt: what was measured is kept, and calls that do not end are not counted as failed.
func TestInterrupt(t *testing.T) {
	for _, callers := range []int{0, 5} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			load := open(Stage{10, time.Hour})
			if load.Callers = callers; callers > 0 {
				load.Stages[0].Rate = 0
			}
			begin := time.Now()
			res := do(ctx, load, func(ctx context.Context) (int, error) {
				if time.Since(begin) >= 2*time.Second {
					return 0, wait(ctx, time.Hour)
				}
				return 0, wait(ctx, 100*time.Millisecond)
			})
			if !res.Interrupted || res.Calls.OK < 20 || res.Calls.Failed != 0 || res.Calls.Unfinished == 0 || res.Calls.Due > 110 || len(res.Seconds) != 3 {
				t.Errorf("%d callers: %+v, %d seconds", callers, res.Calls, len(res.Seconds))
			}
			if took := time.Since(begin); took > 4100*time.Millisecond {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// TestInterruptLetsCallsEnd: those in flight have a second to end, and then count.
func TestInterruptLetsCallsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 995*time.Millisecond)
		defer cancel()
		res := do(ctx, open(Stage{100, time.Hour}), func(ctx context.Context) (int, error) { return 0, wait(ctx, 500*time.Millisecond) })
		if c := res.Calls; !res.Interrupted || c.OK != 100 || c.Due != 100 {
			t.Errorf("%+v", c)
		}
	})
}

// TestInterruptAtTheEnd: a test that is interrupted while the last calls are in flight leaves them
// out, and says so.
func TestInterruptAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		res := do(ctx, open(Stage{10, 2 * time.Second}), func(ctx context.Context) (int, error) { return 0, wait(ctx, 2*time.Hour) })
		if c := res.Calls; !res.Interrupted || c.Due != 20 || c.Unfinished != 20 || !strings.Contains(res.Warnings[0], "with 20 calls in flight") {
			t.Errorf("%+v, %q", c, res.Warnings)
		}
	})
}

// TestInterruptInTheWarmup has nothing to tell, and does not fail.
func TestInterruptInTheWarmup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		load := open(Stage{10, time.Hour}, Stage{10, time.Hour})
		load.Warmup = time.Minute
		res := do(ctx, load, func(context.Context) (int, error) { return 0, nil })
		if !res.Interrupted || res.Calls.Due != 0 || res.Rate != 0 || len(res.Percentiles) != 0 || len(res.Seconds) != 0 {
			t.Errorf("%+v", res)
		}
		if err := res.Write(t.TempDir() + "/empty.html"); err != nil {
			t.Error(err)
		}
	})
}

// TestClosedLoop: callers wait for each response, and rest after failures that come at once.
func TestClosedLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		load := Load{Stages: []Stage{{Duration: time.Second}}, Callers: 4, Warmup: time.Second, MaxInFlight: 1}
		res := do(t.Context(), load, func(ctx context.Context) (int, error) { return 0, wait(ctx, 10*time.Millisecond) })
		if res.Calls.OK != 400 || res.Rate != 400 || res.Load.Loop != "closed" || res.Load.Note != ClosedLoopNote || strings.Contains(res.Generator.String(), "late") {
			t.Errorf("%+v, rate %v, %+v", res.Calls, res.Rate, res.Load)
		}
		res = do(t.Context(), load, func(context.Context) (int, error) { return 0, tandem.Errorf(tandem.Unavailable, "gone") })
		if res.Calls.Failed != 4000 {
			t.Errorf("%+v", res.Calls)
		}
	})
}

// TestViews: views come several times a second, and tell of the seconds that have passed.
func TestViews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var views []View
		load := open(Stage{100, 2 * time.Second})
		load.Warmup = time.Second
		r := Run{Load: load, pause: time.Sleep, Show: func(v *View) { views = append(views, *v) }}
		r.Call = func(ctx context.Context) (int, error) { return 0, wait(ctx, 500*time.Millisecond) }
		r.Do(t.Context())
		if len(views) < 12 || len(views) > 16 {
			t.Fatalf("%d views", len(views))
		}
		if v := views[0]; v.Elapsed >= 0 || v.Counts.OK != 0 || len(v.Seconds) != 0 {
			t.Errorf("the first view is %+v", v)
		}
		last := views[len(views)-1]
		if last.Counts.OK < 150 || last.Duration != 2*time.Second || len(last.Seconds) < 3 || last.Seconds[0].At != -1 || last.Seconds[1].Rate != 100 {
			t.Errorf("the last view is %+v", last)
		}
		if n := views[8].InFlight; n < 49 || n > 51 {
			t.Errorf("%d in flight", n)
		}
	})
}

// TestPrecisePause: it sleeps at least as long as it is told, and the clock of a real run is used.
func TestPrecisePause(t *testing.T) {
	const d = 300 * time.Microsecond
	pause := precisePause()
	start := time.Now()
	pause(d)
	if took := time.Since(start); took < d {
		t.Errorf("it took %v", took)
	}
	r := Run{Load: open(Stage{200, 100 * time.Millisecond}), Call: func(context.Context) (int, error) { return 0, nil }}
	if res := r.Do(t.Context()); res.Calls.OK != 20 {
		t.Errorf("%+v", res.Calls)
	}
}
