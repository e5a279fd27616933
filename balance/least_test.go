package balance

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestLeastInFlight(t *testing.T) {
	nodes := weighted(100, 100, 200)
	picker := LeastInFlight().Build(nodes)
	for range 40 {
		picker.Pick(nil, all).Stats.Begin()
	}
	for i, want := range []int64{10, 10, 20} {
		if n := nodes[i].Stats.InFlight(); n != want {
			t.Errorf("%d calls on node %d, want %d", n, i, want)
		}
	}
	for range 5 {
		nodes[1].Stats.Done(0, false)
	}
	if n := picker.Pick(nil, all); n != nodes[1] {
		t.Errorf("%s was taken", n.Instance.ID)
	}
}

func TestShortestLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := weighted(0, 0, 0)
		call := func(n *Node, took time.Duration) {
			n.Stats.Begin()
			began := Now()
			time.Sleep(took)
			n.Stats.Done(began, false)
		}
		call(nodes[0], 30*time.Millisecond)
		call(nodes[1], 10*time.Millisecond)
		picker := ShortestLatency().Build(nodes)
		if n := picker.Pick(nil, all); n != nodes[2] {
			t.Errorf("%s was taken, not the one that is unknown", n.Instance.ID)
		}
		nodes[2].Stats.Begin() // and it has not answered
		for range 2 {          // 10 ms, then 20
			n := picker.Pick(nil, all)
			if n != nodes[1] {
				t.Errorf("%s was taken", n.Instance.ID)
			}
			n.Stats.Begin()
		}
		nodes[1].Stats.Begin() // 40 ms
		if n := picker.Pick(nil, all); n != nodes[0] {
			t.Errorf("%s was taken, not the one that promises 30 ms", n.Instance.ID)
		}
	})
}

// The slow node of a busy cluster gets very few calls.
func TestShortestLatencyAvoidsASlowNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{weighted(make([]int, 10)...), func(node int, _ time.Duration) time.Duration {
			if node == 0 {
				return jitter(time.Second)
			}
			return jitter(20 * time.Millisecond)
		}, 20, nil}
		calls := c.run(ShortestLatency(), 2*time.Second, 10*time.Second)
		// 57 runs: 0 in all of them; it is tried again once, after seconds.
		if share := float64(calls[0]) / float64(total(calls)); share > 0.002 {
			t.Errorf("the slow node got %.1f %%: %v", 100*share, calls)
		}
	})
}

// An instance that has refused, or quickly failed, all its calls does not count as the
// quickest, and gets its share once it answers.
func TestShortestLatencyAvoidsNodesThatNeverAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, end := range []func(s *Stats){
			func(s *Stats) { s.RefusedAt(Now()) },
			func(s *Stats) { s.Done(Now(), true) },
		} {
			nodes := weighted(make([]int, 10)...)
			picker, to := ShortestLatency().Build(nodes), 0
			for range 10_000 {
				n := picker.Pick(nil, all)
				n.Stats.Begin()
				if n == nodes[0] {
					to++
					end(n.Stats)
					continue
				}
				began := Now()
				time.Sleep(10 * time.Millisecond)
				n.Stats.Done(began, false)
			}
			if to < 10 || to > 300 { // binomial, 62 of 10,000: fewer than 10 has a probability of 1e-16
				t.Errorf("one of ten, that has never answered, gets %d of 10,000 calls, want one in 160", to)
			}
		}
	})
}

// A slow node without calls is tried again, however slow it was.
func TestShortestLatencyTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := weighted(0, 0)
		for i, n := range nodes {
			n.Stats.Begin()
			began := Now()
			time.Sleep(time.Duration(1+100*i) * time.Millisecond)
			n.Stats.Done(began, false)
		}
		time.Sleep(24 * time.Hour)
		picker := ShortestLatency().Build(nodes)
		nodes[0].Stats.Begin() // so it does not age
		for range 2 {
			nodes[1].Stats.age(Now()) // a faded latency does not make it unknown
			time.Sleep(time.Hour)
		}
		if n := picker.Pick(nil, all); n != nodes[1] {
			t.Errorf("%s was taken", n.Instance.ID)
		}
	})
}

// Of a node whose latency has faded the next response counts alone, and until then it gets one
// call at a time.
func TestShortestLatencyAfterALongTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := weighted(0, 0)
		for _, n := range nodes {
			n.Stats.Begin()
			began := Now()
			time.Sleep(10 * time.Millisecond)
			n.Stats.Done(began, false)
		}
		time.Sleep(time.Hour)
		nodes[1].Stats.Begin() // so it does not age
		picker := ShortestLatency().Build(nodes)
		nodes[0].Stats.age(Now())
		for range 10 {
			n := picker.Pick(nil, all)
			n.Stats.Begin()
		}
		if n := nodes[0].Stats.InFlight(); n > 2 {
			t.Errorf("one of two has %d of 10 calls while it answers none", n)
		}
		began := Now()
		time.Sleep(10 * time.Millisecond)
		nodes[0].Stats.Done(began, false)
		if got := nodes[0].Stats.Latency(); got != 10*time.Millisecond {
			t.Errorf("after an answer in 10 ms it has a latency of %v", got)
		}
	})
}
