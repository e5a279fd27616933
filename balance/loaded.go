package balance

import (
	"time"

	"github.com/tandem-rpc/tandem"
)

// Load is what a server says about itself in a reply. It is as new as the last
// reply from it.
type Load struct {
	InFlight    int // calls that it runs, everybody's
	Queued      int // calls that wait there
	Utilization int // of its limit of calls, in percent; 0 without a limit
}

// A report is one word: when it came, in tenths of a second by Now and without the
// upper bits; how many calls of our own were in flight then; how many the server
// had; that there is a report; the utilization.
const (
	utilizationBits = 7
	flagBits        = 1
	callsBits       = 16
	ownBits         = 14
	timeBits        = 26

	callsAt = utilizationBits + flagBits
	ownAt   = callsAt + callsBits
	timeAt  = ownAt + ownBits
)

// reportLife is how long a report is believed. An instance that has been avoided
// for so long is tried again.
const reportLife = 10 * time.Second

// Report keeps what a reply has said about the load, before [Stats.Done] of its
// call. It is called for policies whose [Needs] have Load only.
func (s *Stats) Report(l Load) { s.ReportAt(Now(), l) }

// ReportAt is [Stats.Report] for a reply that came at the instant now, by the clock
// of a [World].
func (s *Stats) ReportAt(now time.Duration, l Load) {
	word := bits(now/reportTick, timeBits)<<timeAt | 1<<utilizationBits |
		bits(min(max(1, s.InFlight())-1, 1<<ownBits-1), ownBits)<<ownAt |
		bits(min(max(0, l.InFlight)+max(0, l.Queued), 1<<callsBits-1), callsBits)<<callsAt |
		bits(min(max(0, l.Utilization), 100), utilizationBits)
	s.reported.Store(word)
}

const reportTick = 100 * time.Millisecond

// bits returns the lower bits of a number.
func bits[T ~int | ~int64](n T, width int) uint64 {
	return uint64(n) & (1<<width - 1)
}

// Reported returns what the server has said last about its load: how many calls of
// others it had, running and queued, and which part of its limit is taken, in
// percent. It is 0 before the first report, and when that is old.
func (s *Stats) Reported() (others, utilization int) {
	word := s.reported.Load()
	calls, own := word>>callsAt&(1<<callsBits-1), word>>ownAt&(1<<ownBits-1)
	return int(calls - min(own, calls)), int(word & (1<<utilizationBits - 1))
}

// forget drops a report that is too old.
func (s *Stats) forget(now time.Duration) {
	word := s.reported.Load()
	if word == 0 || s.InFlight() > 0 {
		return
	}
	age := (bits(now/reportTick, timeBits) - word>>timeAt) & (1<<timeBits - 1)
	if age > uint64(reportLife/reportTick) {
		s.reported.CompareAndSwap(word, 0)
	}
}

// LeastLoaded returns the policy that draws two instances, evenly or by weight, and
// takes the one that has fewer calls: the power of two choices, as [P2C]. Its calls
// are those of others, running and queued, as it said in its last reply, and this
// client's own that are in flight now. A call counts less where the weight is
// higher. An instance that says that its limit is reached is taken only if the
// other one's is, too. One that refuses calls has no calls in flight for that reason only,
// and is never taken for having fewer.
//
// Reports are forgotten after 10 s without a call, so that who was avoided is tried
// again. gRPC's load reports (ORCA, proposals A51 and A58) are this with more
// figures and slower changes.
func LeastLoaded() Policy { return leastLoaded{} }

type leastLoaded struct{}

func (leastLoaded) Name() string { return "least_loaded" }
func (leastLoaded) Needs() Needs { return Needs{Load: true} }

func (leastLoaded) Build(nodes []*Node) Picker { return &loadedPicker{newPairs(nodes)} }

type loadedPicker struct{ pairs }

func (p *loadedPicker) Pick(_ *tandem.Call, usable func(*Node) bool) *Node {
	if len(p.nodes) < 2 {
		return anyUsable(p.nodes, usable)
	}
	random := processRandom()
	if p.world != nil {
		random = p.world.Random()
	}
	a, b := p.pair(random)
	switch first, second := usable(a), usable(b); {
	case !first && !second:
		return anyUsable(p.nodes, usable)
	case !second:
		return a
	case !first:
		return b
	}
	if random%agePicks == 0 {
		now := p.world.now()
		a.Stats.forget(now)
		b.Stats.forget(now)
	}
	// An instance that refuses calls has none in flight for that reason only: it is taken
	// where it was drawn first, which is an even share.
	if p.load(b) < p.load(a) && (!b.Stats.refusing() || a.Stats.refusing()) {
		return b
	}
	return a
}

// fullLoad is more than any number of calls.
const fullLoad = 1e9

func (p *loadedPicker) load(n *Node) float64 {
	others, utilization := n.Stats.Reported()
	load := p.perWeight(float64(int64(others)+n.Stats.InFlight()), n)
	if utilization >= 100 {
		load += fullLoad
	}
	return load
}

// Explain's scores are loads, in calls: of two that are drawn the lower one wins.
func (p *loadedPicker) Explain(_ *tandem.Call, usable func(*Node) bool, e *Explanation) {
	e.choice(leastLoaded{}.Name(), p.nodes, usable, p.load)
}
