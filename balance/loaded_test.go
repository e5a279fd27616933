package balance

import (
	"math"
	"testing"
	"testing/synctest"
	"time"
)

func TestReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Stats
		if calls, share := s.Reported(); calls != 0 || share != 0 {
			t.Errorf("before a report: %d, %d %%", calls, share)
		}
		for _, tc := range []struct {
			own           int // in flight, without the call that brings the report
			load          Load
			others, share int
		}{
			{0, Load{InFlight: 3, Queued: 2, Utilization: 40}, 5, 40},
			{4, Load{InFlight: 10, Utilization: 100}, 6, 100},
			{4, Load{InFlight: 1}, 0, 0},
			{0, Load{InFlight: math.MaxInt32, Queued: math.MaxInt32, Utilization: 200}, 65_535, 100},
			{0, Load{InFlight: -1, Queued: -1, Utilization: -1}, 0, 0},
		} {
			for range tc.own + 1 {
				s.Begin()
			}
			s.Report(tc.load)
			for range tc.own + 1 {
				s.Done(0, false)
			}
			if others, share := s.Reported(); others != tc.others || share != tc.share {
				t.Errorf("%+v: %d calls of others, %d %%", tc, others, share)
			}
		}
		s.Report(Load{InFlight: 7})
		time.Sleep(reportLife)
		if s.forget(Now()); s.reported.Load() == 0 {
			t.Error("forgotten too soon")
		}
		time.Sleep(time.Second)
		s.Begin()
		if s.forget(Now()); s.reported.Load() == 0 {
			t.Error("forgotten while a call will tell")
		}
		s.Done(0, false)
		if s.forget(Now()); s.reported.Load() != 0 {
			t.Error("an old report is kept")
		}
	})
}

func TestLeastLoaded(t *testing.T) {
	nodes := weighted(0, 0)
	p := LeastLoaded().Build(nodes)
	report := func(node int, l Load) { nodes[node].Stats.Report(l) }
	only := func(want int, what string) {
		t.Helper()
		if got := count(p, 200, all); got[nodes[want].Instance.ID] != 200 {
			t.Errorf("%s: %v", what, got)
		}
	}
	report(0, Load{InFlight: 5})
	report(1, Load{InFlight: 4})
	only(1, "fewer running")
	report(1, Load{InFlight: 4, Queued: 2})
	only(0, "but more with the queued ones")
	report(0, Load{InFlight: 1, Utilization: 100})
	only(1, "the other one's limit is reached")
	report(1, Load{InFlight: 1000, Utilization: 100})
	only(0, "both limits are reached")
	report(0, Load{})
	report(1, Load{})
	nodes[0].Stats.Begin()
	only(1, "our own calls")
	nodes[0].Instance.Weight, nodes[1].Instance.Weight = 400, 100
	nodes[1].Stats.Begin()
	p = LeastLoaded().Build(nodes)
	if got := count(p, 10_000, all); got["n1"] > 1000 { // both draws: 1 in 25, which is 400 with a standard deviation of 20
		t.Errorf("by weight: %v", got)
	}
}

// Servers report all calls that they run but this one, including those of other clients.
func TestLeastLoadedSeesOthersCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := weighted(make([]int, 10)...)
		c := &cluster{nodes, nil, 20, nil}
		c.latency = func(node int, _ time.Duration) time.Duration {
			others := 0
			if node == 0 {
				others = 50
			}
			n := nodes[node]
			time.AfterFunc(9*time.Millisecond, func() { n.Stats.Report(Load{InFlight: others + int(n.Stats.InFlight()) - 1}) })
			return 10 * time.Millisecond // for any number of calls, so P2C would notice nothing
		}
		calls := c.run(LeastLoaded(), time.Second, 21*time.Second)
		time.Sleep(time.Second)
		// 57 runs: 0.001, with a standard deviation of 0.00025: far from the bound. Old reports are forgotten, so it is not 0.
		if share := 10 * float64(calls[0]) / float64(total(calls)); share > 0.05 || calls[0] == 0 {
			t.Errorf("the busy node got %d of %d calls, %.3f of its share", calls[0], total(calls), share)
		}
	})
}
