package balance

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
)

// refusals plays calls that begin at random times, each of which takes 5 to 15 ms, or is ended
// by refuse at once if it goes to the first node. After warm calls, pause is called before each
// hundredth call. Every run is the same.
type refusals struct {
	policy Policy
	nodes  int
	each   float64 // calls in flight at each node, on average
	warm   int     // calls before the first node begins to refuse
	refuse func(s *Stats, now time.Duration)
	pause  time.Duration
}

// share returns which part of 3,000 calls, after 500 more, go to the node that refuses, as
// a multiple of an even share.
func (r *refusals) share() float64 {
	now, random := time.Hour, rand.New(rand.NewPCG(1, 2))
	table := NewTableIn(&World{Now: func() time.Duration { return now }, Random: random.Uint64}, r.policy)
	table.Update(instances([]string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}[:r.nodes]...))
	type running struct {
		node         *Node
		began, until time.Duration
	}
	var calls []running
	end := func() {
		left := calls[:0]
		for _, c := range calls {
			if c.until > now {
				left = append(left, c)
				continue
			}
			c.node.Stats.DoneAt(c.began, c.until, false)
		}
		calls = left
	}
	begin := func(n *Node) {
		n.Stats.Begin()
		took := 5*time.Millisecond + time.Duration(random.Int64N(int64(10*time.Millisecond)))
		calls = append(calls, running{n, now, now + took})
	}
	const settle, counted = 500, 3000
	refused := 0
	for i := range r.warm + settle + counted {
		now += time.Duration(random.ExpFloat64() * float64(10*time.Millisecond) / r.each / float64(r.nodes))
		if i > r.warm && i%100 == 0 {
			now += r.pause
		}
		end()
		n := table.Pick(new(tandem.Call), all)
		if i < r.warm || n.Instance.ID != "a" {
			begin(n)
			continue
		}
		if i >= r.warm+settle {
			refused++
		}
		n.Stats.Begin()
		r.refuse(n.Stats, now)
		begin(table.Pick(new(tandem.Call), func(n *Node) bool { return n.Instance.ID != "a" })) // a retry
	}
	return float64(refused) * float64(r.nodes) / counted
}

// An instance that refuses its calls, or fails them at once, has none in flight, and its
// latency fades in a pause and is not measured again. It does not get more calls than the
// others for that.
func TestRefusalsDrawNoMoreThanAnEvenShare(t *testing.T) {
	if raceEnabled {
		t.Skip("one goroutine, and many picks: made without the race detector")
	}
	refuse := map[string]func(s *Stats, now time.Duration){
		"refused":  func(s *Stats, now time.Duration) { s.RefusedAt(now) },
		"failed":   func(s *Stats, now time.Duration) { s.DoneAt(now-time.Microsecond, now, true) },
		"untimed":  func(s *Stats, _ time.Duration) { s.DoneAt(0, 0, true) },
		"by turns": byTurns(),
	}
	for name, refuse := range refuse {
		for _, policy := range []Policy{P2C(), LeastInFlight(), ShortestLatency(), LeastLoaded()} {
			for _, nodes := range []int{2, 10} {
				for _, each := range []float64{0.2, 5} {
					for _, warm := range []int{0, 30, 1000} { // never answered, a newcomer, and well known
						for _, pause := range []time.Duration{0, time.Second, 10 * time.Minute} {
							r := refusals{policy, nodes, each, warm, refuse, pause}
							if share := r.share(); share > 1.3 { // binomial, 300 of 3,000: 5.5 standard deviations, 2e-8
								t.Errorf("%s, %s of %d nodes, %v calls in flight each, %d before, pauses of %v: it draws %.2f even shares",
									policy.Name(), name, nodes, each, warm, pause, share)
							}
						}
					}
				}
			}
		}
	}
}

// byTurns refuses two calls and fails the third at once.
func byTurns() func(s *Stats, now time.Duration) {
	n := 0
	return func(s *Stats, now time.Duration) {
		if n++; n%3 == 0 {
			s.DoneAt(now-time.Microsecond, now, true)
			return
		}
		s.RefusedAt(now)
	}
}

// An instance that serves a call again has its share of the next ones, whatever it refused
// before.
func TestRefusalsAreOverWithACall(t *testing.T) {
	for _, began := range []time.Duration{0, time.Second - time.Millisecond} { // also without a measured latency
		for _, policy := range []Policy{P2C(), LeastInFlight(), ShortestLatency(), LeastLoaded()} {
			nodes := weighted(0, 0)
			for _, n := range nodes {
				for range 20 {
					n.Stats.Begin()
					n.Stats.DoneAt(began, time.Second, false)
				}
			}
			refused, other := nodes[0], nodes[1]
			refused.Stats.Begin()
			refused.Stats.RefusedAt(time.Second)
			if !refused.Stats.refusing() {
				t.Errorf("after a refusal it is not refusing")
			}
			refused.Stats.Begin()
			refused.Stats.DoneAt(began, time.Second, false)
			if refused.Stats.refusing() {
				t.Errorf("after a call that was served it is refusing still")
			}
			for range 100 {
				other.Stats.Begin() // so the other one has more calls in flight
			}
			picker := policy.Build(nodes)
			for range 100 {
				if n := picker.Pick(nil, all); n != refused {
					t.Errorf("%s: the busy one is taken", policy.Name())
					break
				}
			}
		}
	}
}

// If all instances refuse, the policy chooses among them as if none did.
func TestAllRefuse(t *testing.T) {
	for _, policy := range []Policy{P2C(), LeastInFlight(), ShortestLatency(), LeastLoaded()} {
		nodes := weighted(0, 0, 0)
		for i, n := range nodes {
			for range 20 {
				n.Stats.Begin()
				n.Stats.DoneAt(time.Millisecond, 2*time.Millisecond, false)
			}
			n.Stats.Begin()
			n.Stats.RefusedAt(2 * time.Millisecond)
			for range i { // calls that take long
				n.Stats.Begin()
			}
		}
		picker, got := policy.Build(nodes), [3]int{}
		for range 3000 {
			n := picker.Pick(nil, all)
			for i := range nodes {
				if nodes[i] == n {
					got[i]++
				}
			}
		}
		// P2C draws the last one twice in three times, and the other one wins.
		if got[2] > 0 {
			t.Errorf("%s: the busiest of three that all refuse gets %v", policy.Name(), got)
		}
	}
}

// A refusing instance stays refusing while its latency fades.
func TestRefusingDoesNotFade(t *testing.T) {
	s, now := new(Stats), time.Second
	s.Begin()
	s.DoneAt(now-10*time.Millisecond, now, false)
	s.Begin()
	s.RefusedAt(now)
	s.age(now + time.Hour)
	if !s.refusing() || s.Peak() != 0 || s.Latency() != faded {
		t.Errorf("after an hour: refusing %v, a peak of %v and a latency of %v", s.refusing(), s.Peak(), s.Latency())
	}
}
