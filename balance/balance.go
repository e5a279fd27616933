// Package balance chooses an instance for each call. A [Policy] turns a list
// of nodes into a [Picker]; what is known about a node lives in its [Stats],
// outside the pickers, so a change of the list loses nothing. A [Table] keeps
// the three together for a client.
package balance

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem"
)

// Policy makes pickers. It is a value; one may serve many clients.
type Policy interface {
	Name() string
	// Build returns a picker over the nodes, which it may keep but not
	// change. There may be none. It is called on every change of the list.
	Build(nodes []*Node) Picker
}

// LatencyAware is implemented by a [Policy] whose pickers look at
// [Stats.Latency]. For others a client saves itself the clock.
type LatencyAware interface {
	UsesLatency() bool
}

// Picker chooses. It is safe for concurrent use and takes no lock.
type Picker interface {
	// Pick returns a node for the call for which usable is true, or nil when
	// there is none. The middle above has put the call's pin, its exclusions
	// and the node's health into usable. Pick must not keep the call.
	Pick(call *tandem.Call, usable func(*Node) bool) *Node
}

// Node is an instance that can be chosen.
type Node struct {
	Instance tandem.Instance
	Stats    *Stats // shared by every Node of the same instance ID
}

// Weight returns the instance's weight, 100 unless it names one, and always
// one that is valid: from 1 to [tandem.MaxWeight].
func (n *Node) Weight() int {
	if n.Instance.Weight == 0 {
		return tandem.DefaultWeight
	}
	return min(max(n.Instance.Weight, 1), tandem.MaxWeight)
}

// Stats is what one client knows about one instance; while that is the only one
// it is not kept. Its methods are atomic and safe for concurrent use.
type Stats struct {
	begun    atomic.Uint64
	ended    atomic.Uint64
	failures atomic.Uint64
	latency  atomic.Int64          // ns; moving average
	highest  atomic.Uint64         // ns, a float64; see Peak
	seen     atomic.Int64          // when highest was last brought up to date
	_        [cacheLine - 6*8]byte // so that two instances never share a line
}

// cacheLine is how many bytes processors keep apart from each other.
const cacheLine = 64

var processBegan = time.Now()

// Now is the clock of [Stats]: the time since the process began.
func Now() time.Duration { return time.Since(processBegan) }

// Begin counts a call that starts.
func (s *Stats) Begin() { s.begun.Add(1) }

// Done counts a call that began at the instant began, by [Now], and has ended; 0
// if that was not measured.
func (s *Stats) Done(began time.Duration, failed bool) {
	s.ended.Add(1)
	if failed {
		s.failures.Add(1)
	}
	if began == 0 {
		return
	}
	now := Now()
	took := now - began
	s.observe(now, took, failed)
	if !failed {
		s.average(took)
	}
}

// average moves the latency by an eighth of the difference (RFC 6298 uses the
// same gain for round-trip times).
func (s *Stats) average(took time.Duration) {
	old := s.latency.Load()
	if old == 0 {
		s.latency.Store(int64(took))
		return
	}
	s.latency.Store(old + (int64(took)-old)/8) // a lost race loses one sample of many
}

// peakTime is the time constant with which a peak is forgotten.
const peakTime = 10 * time.Second

// observe moves the peak: up at once, down as time goes by. That a call failed
// quickly speaks for nobody.
func (s *Stats) observe(now, took time.Duration, failed bool) {
	old := s.peak()
	sample := float64(took)
	if sample < old {
		if failed {
			return
		}
		sample += (old - sample) * s.fades(now)
	}
	s.highest.Store(math.Float64bits(sample))
	s.seen.Store(int64(now))
}

// age lets latencies fade though no call has ended: what is avoided for being
// slow is tried again. While calls are in flight they will tell, and one that
// never answers must not be taken for quick.
func (s *Stats) age(now time.Duration) {
	if int64(now)-s.seen.Load() < int64(peakTime)/100 || s.InFlight() > 0 {
		return
	}
	left := s.fades(now)
	s.highest.Store(math.Float64bits(s.peak() * left))
	s.latency.Store(int64(float64(s.latency.Load()) * left))
	s.seen.Store(int64(now))
}

// fades returns what is left of 1 since the peak was brought up to date.
func (s *Stats) fades(now time.Duration) float64 {
	since := max(0, int64(now)-s.seen.Load())
	return math.Exp(-float64(since) / float64(peakTime))
}

func (s *Stats) peak() float64 { return math.Float64frombits(s.highest.Load()) }

// Peak returns the latency that a call has to expect, with a memory for bad
// times: it rises to the latency of a slower call at once and falls towards those
// of quicker ones with a time constant of 10 s. It is 0 before the first.
func (s *Stats) Peak() time.Duration { return time.Duration(s.peak()) }

// InFlight returns the number of calls that have begun and not ended.
func (s *Stats) InFlight() int64 {
	ended := s.ended.Load()              // first: then it is never more than begun
	return int64(s.begun.Load() - ended) //nolint:gosec // small
}

// Latency returns the moving average of successful calls, 0 before the first. It
// fades, as [Stats.Peak] does, where a policy looks at an instance without calls.
func (s *Stats) Latency() time.Duration { return time.Duration(s.latency.Load()) }

// Calls returns how many calls ended, and how many of them failed.
func (s *Stats) Calls() (ended, failed uint64) { return s.ended.Load(), s.failures.Load() }
