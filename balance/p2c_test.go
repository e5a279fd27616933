package balance

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// cluster simulates nodes with the given latencies, and a client with as many callers.
type cluster struct {
	nodes   []*Node
	latency func(node int, since time.Duration) time.Duration
	callers int
	cut     map[int]int // calls to each that had not ended when the run did
}

// run makes calls for that long, in virtual time, and returns how many each node
// got from the instant from on.
func (c *cluster) run(p Policy, from, lasts time.Duration) (calls []int) {
	picker, began := p.Build(c.nodes), time.Now()
	index := map[*Node]int{}
	for i, n := range c.nodes {
		index[n] = i
	}
	calls, c.cut = make([]int, len(c.nodes)), map[int]int{}
	ctx, cancel := context.WithTimeout(context.Background(), lasts)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range c.callers {
		wg.Go(func() {
			for ctx.Err() == nil {
				n := picker.Pick(nil, all)
				if since := time.Since(began); since >= from {
					mu.Lock()
					calls[index[n]]++
					mu.Unlock()
				}
				n.Stats.Begin()
				at := Now()
				select {
				case <-time.After(c.latency(index[n], time.Since(began))):
				case <-ctx.Done():
					mu.Lock()
					c.cut[index[n]]++
					mu.Unlock()
				}
				n.Stats.Done(at, false)
			}
		})
	}
	wg.Wait()
	return calls
}

// jitter is a latency of about d.
func jitter(d time.Duration) time.Duration {
	return d/2 + rand.N(d)
}

func total(calls []int) (n int) {
	for _, c := range calls {
		n += c
	}
	return n
}

// A node that is fifty times slower than its nine neighbours gets very few calls; by the calls
// in flight alone it would get one in two hundred.
func TestP2CAvoidsASlowNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{weighted(make([]int, 10)...), func(node int, _ time.Duration) time.Duration {
			if node == 0 {
				return jitter(100 * time.Millisecond)
			}
			return jitter(2 * time.Millisecond)
		}, 20, nil}
		calls := c.run(P2C(), 0, 5*time.Second)
		// 57 runs: 0.00009, with a standard deviation of 0.00001; the bound is 100 of them away.
		if share := float64(calls[0]) / float64(total(calls)); share > 0.002 {
			t.Errorf("the slow node got %.1f %%: %v", 100*share, calls)
		}
	})
}

// Without calls in flight, a slightly slower node gets slightly fewer calls.
func TestP2CSlowerNodeGetsLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		latencies := []time.Duration{10 * time.Millisecond, 12 * time.Millisecond, 15 * time.Millisecond}
		c := &cluster{weighted(0, 0, 0), func(node int, _ time.Duration) time.Duration { return jitter(latencies[node]) }, 1, nil}
		calls := c.run(P2C(), 0, time.Minute)
		for node, n := range calls {
			// 57 runs: 1.38, 1.02 and 0.60, with standard deviations below 0.021; 5.5 of them beyond the bounds: 2e-8.
			if share := 3 * float64(n) / float64(total(calls)); share < 0.5 || share > 1.5 {
				t.Errorf("%v: %.2f of its share: %v", latencies[node], share, calls)
			}
		}
	})
}

// A node that paused once has its share again 15 s later, though another one could serve all
// calls.
func TestP2CForgivesAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{weighted(0, 0), func(node int, since time.Duration) time.Duration {
			if node == 0 && since > time.Second && since < 1100*time.Millisecond {
				return 100 * time.Millisecond
			}
			return jitter(2 * time.Millisecond)
		}, 1, nil}
		calls := c.run(P2C(), 16*time.Second, 26*time.Second)
		// 57 runs: 1.00, with a standard deviation of 0.013: 38 of them.
		if share := 2 * float64(calls[0]) / float64(total(calls)); share < 0.5 {
			t.Errorf("it got %.2f of its share: %v", share, calls)
		}
	})
}

// An unknown node counts as quick as the others, and not as quicker.
func TestP2CAndTheUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := NewTable(P2C())
		table.Update(instances("a", "b", "c"))
		for _, n := range table.Nodes() {
			sleepCalls(n.Stats, 10, 10*time.Millisecond, false)
		}
		table.Update(instances("a", "b", "c", "d"))
		got := map[string]int{}
		for range 4000 {
			got[table.Pick(nil, all).Instance.ID]++
		}
		if got["d"] < 820 || got["d"] > 1180 { // 1000 with a standard deviation of 27: by chance once in 10^10 times
			t.Errorf("it gets %v of 4000 calls without a response yet", got)
		}
		stats(table)["d"].Begin() // it has one, and the others none
		clear(got)
		for range 4000 {
			got[table.Pick(nil, all).Instance.ID]++
		}
		if got["d"] > 0 {
			t.Errorf("with a call that others do not have it gets %v", got)
		}
	})
}

// A node that was slow and has become quick gets its share again.
func TestRecoveredNodeComesBack(t *testing.T) {
	for _, p := range []Policy{P2C(), ShortestLatency()} {
		synctest.Test(t, func(t *testing.T) {
			c := &cluster{weighted(make([]int, 10)...), func(node int, since time.Duration) time.Duration {
				if node == 0 && since < 5*time.Second {
					return jitter(time.Second)
				}
				return jitter(20 * time.Millisecond)
			}, 20, nil}
			calls := c.run(p, 75*time.Second, 90*time.Second)
			// 57 runs: 1.00, with a standard deviation of 0.011: 44 of them.
			if share := 10 * float64(calls[0]) / float64(total(calls)); share < 0.5 {
				t.Errorf("%s: the recovered node got %.2f of its share: %v", p.Name(), share, calls)
			}
		})
	}
}

// A node that stops answering blocks a few calls, not all of them, however long that lasts.
func TestP2CHoldsBackFromAHungNode(t *testing.T) {
	if raceEnabled {
		t.Skip("one goroutine, and many picks: made without the race detector")
	}
	synctest.Test(t, func(t *testing.T) {
		const callers = 50
		c := &cluster{weighted(make([]int, 10)...), func(node int, since time.Duration) time.Duration {
			if node == 0 && since > time.Second {
				return time.Hour
			}
			return jitter(20 * time.Millisecond)
		}, callers, nil}
		c.run(P2C(), 0, time.Minute)
		// 57 runs: 10.1, with a standard deviation of 0.3: 15 of them.
		if calls := c.cut[0]; calls > 3*callers/10 {
			t.Errorf("%d of %d calls wait for the hung node", calls, callers)
		}
	})
}

// Nodes with more weight may have more calls in flight.
func TestP2CUnderLoadFollowsWeights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{weighted(100, 100, 400), func(int, time.Duration) time.Duration {
			return jitter(20 * time.Millisecond)
		}, 60, nil}
		calls := c.run(P2C(), 2*time.Second, 12*time.Second)
		// 57 runs: 0.672, with a standard deviation of 0.0008: 69 of them.
		if share := float64(calls[2]) / float64(total(calls)); share < 0.6 || share > 0.73 {
			t.Errorf("the node with two thirds of the weight got %.2f: %v", share, calls)
		}
	})
}
