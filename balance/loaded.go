package balance

import (
	"time"

	"github.com/tandem-rpc/tandem"
)

// Load is the load that a server reports in a response. It is as old as the last response from
// that server.
type Load struct {
	InFlight    int // calls that it runs, of all clients
	Queued      int // calls that wait there
	Utilization int // percent of its limit of calls that is used; 0 without a limit
}

// A report is one word: when it came, in tenths of a second by Now and without the upper bits;
// how many of this client's calls were in flight then; how many calls the server had; a bit
// that says that there is a report; the utilization.
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

// reportLife is how long a report is valid. An instance that was avoided for so long is tried
// again.
const reportLife = 10 * time.Second

// Report records the load that a response has reported, before [Stats.Done] of its call. It is
// called only for policies whose [Needs] have Load.
func (s *Stats) Report(l Load) { s.ReportAt(Now(), l) }

// ReportAt is [Stats.Report] for a response that came at the instant now, by the clock of a
// [World].
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

// Reported returns the load that the server reported last: how many calls of others it had,
// running and queued, and which part of its limit was used, in percent. Both are 0 before the
// first report, and when that is too old.
func (s *Stats) Reported() (others, utilization int) {
	word := s.reported.Load()
	calls, own := word>>callsAt&(1<<callsBits-1), word>>ownAt&(1<<ownBits-1)
	return int(calls - min(own, calls)), int(word & (1<<utilizationBits - 1))
}

// forget drops a report that is too old, unless calls are in flight.
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

// LeastLoaded returns the policy that draws two instances, evenly or by weight, and takes the
// one with fewer calls: the power of two choices, as [P2C]. The calls of an instance are those
// of other clients, running and queued, as it reported in its last response, and this client's
// own in flight. A call counts less where the weight is higher. An instance that reports that
// its limit is reached is taken only if the other one does, too. An instance that refuses calls
// has none in flight for that reason only, so it is never preferred for having fewer.
//
// Reports are forgotten after 10 s without a call, so that an instance that was avoided is
// tried again. gRPC's load reports (ORCA, proposals A51 and A58) are this with more figures and
// slower changes.
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
	// An instance that refuses calls has none in flight for that reason only: it is taken only
	// if it was drawn first, which gives it an even share.
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
