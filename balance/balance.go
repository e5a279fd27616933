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

// Policy makes pickers. It is a value; one may serve many clients. One that changes
// what another does embeds it, as a Policy, and has a Build of its own.
type Policy interface {
	Name() string
	// Needs says what the policy wants to be given, and what it leaves out.
	Needs() Needs
	// Build returns a picker over the nodes, which it may keep but not
	// change. There may be none. It is called on every change of the list.
	Build(nodes []*Node) Picker
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
	world    *World // nil: the process's clock and chance

	memories *memories // of the table; nil for a node of none
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
	highest  atomic.Uint64         // ns, two of float32: what Peak returns, and what it was before it faded
	seen     atomic.Int64          // when highest was last brought up to date; later than now while it is held
	listed   atomic.Int64          // since when it is known; see Listed
	reported atomic.Uint64         // what came with the last reply; see Report
	_        [cacheLine - 8*8]byte // so that two instances never share a line
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
	var now time.Duration
	if began != 0 {
		now = Now()
	}
	s.DoneAt(began, now, failed)
}

// DoneAt is [Stats.Done] for a call that has ended at the instant now, by the clock
// of a [World].
func (s *Stats) DoneAt(began, now time.Duration, failed bool) {
	s.ended.Add(1)
	if failed {
		s.failures.Add(1)
	}
	if began == 0 {
		return
	}
	took := now - began
	s.observe(now, took, failed)
	if !failed {
		s.average(took)
	}
}

// RefusedAt counts a call that the instance has refused at the instant now, by the
// clock of a [World], since it has too much to do. To be refused quickly is not to be
// served quickly, and whoever refuses is not one that nobody calls.
func (s *Stats) RefusedAt(now time.Duration) {
	s.hold(now)
	s.ended.Add(1)
}

// hold brings back what is known of an instance, where it has faded, and keeps it until
// the instance has not been called for a while. Calls that say nothing about the latency
// would not bring it back, and the instance would pass for a quick one and draw more and
// more of them.
func (s *Stats) hold(now time.Duration) {
	if peak, earned := s.peaks(); peak < earned {
		s.latency.Store(max(s.latency.Load(), int64(s.unfaded(peak, earned))))
		s.setPeaks(earned, earned)
	}
	s.seen.Store(int64(now + memoryTime))
}

// unfaded returns what the average was before it faded, as the peak did; 0 if no call has
// succeeded.
func (s *Stats) unfaded(peak, earned float64) float64 {
	average := float64(s.latency.Load())
	switch {
	case average == 0:
		return 0
	case peak == 0: // it has faded altogether
		return earned
	}
	return min(average*earned/peak, earned)
}

// average moves the latency by an eighth of the difference (RFC 6298 uses the
// same gain for round-trip times).
func (s *Stats) average(took time.Duration) {
	old := s.latency.Load()
	if old <= faded {
		s.latency.Store(int64(took))
		return
	}
	s.latency.Store(old + (int64(took)-old)/8) // a lost race loses one sample of many
}

// Time constants with which bad times are forgotten, and with which everything is
// that is known of an instance that nobody calls.
const (
	peakTime   = 2500 * time.Millisecond
	memoryTime = 10 * time.Second
)

// A newcomer is an instance in its first seconds and calls. The first ones are often
// slow, for a connection, caches and code that are cold, and say little about the rest.
const (
	newcomerTime  = 5 * time.Second
	newcomerCalls = 8
)

// faded is the latency of an instance of which nothing is known any more; 0 that of one
// which has never answered.
const faded = 1 // ns

// failedLatency is what a call has to expect of an instance of which nothing is known
// but that it failed.
const failedLatency = time.Second

// observe moves the peak: up at once, down as time goes by; of a newcomer it is the
// lowest. That a call failed quickly speaks for nobody, and if it was the first, it
// counts for a slow one.
func (s *Stats) observe(now, took time.Duration, failed bool) {
	old, earned := s.peaks()
	sample := float64(took)
	switch {
	case failed && earned == 0:
		sample = max(sample, float64(failedLatency))
	case failed && sample < earned:
		s.hold(now)
		return
	case old > 0 && s.isNewcomer(now):
		sample = min(sample, old)
	case sample < old:
		sample += (old - sample) * s.fades(now, peakTime)
	}
	s.setPeaks(sample, sample)
	s.seen.Store(int64(now))
}

// isNewcomer reports whether the instance is new to the list.
func (s *Stats) isNewcomer(now time.Duration) bool {
	listed := s.listed.Load()
	return s.hardlyKnown() && listed != 0 && now-time.Duration(listed) < newcomerTime
}

// silent reports whether calls have ended and none of them says how quick it is.
func (s *Stats) silent() bool { return s.latency.Load() == 0 && s.ended.Load() > 0 }

// hardlyKnown reports whether few calls have ended.
func (s *Stats) hardlyKnown() bool { return s.ended.Load() <= newcomerCalls }

// age lets latencies fade though no call has ended, the peak to the average and both
// to nothing: what is avoided for being slow is tried again. While calls are in flight
// they will tell, and one that never answers must not be taken for quick.
func (s *Stats) age(now time.Duration) {
	if int64(now)-s.seen.Load() < int64(peakTime)/100 || s.InFlight() > 0 {
		return
	}
	left, average := s.fades(now, memoryTime), float64(s.latency.Load())
	peak, earned := s.peaks()
	if unfaded := s.unfaded(peak, earned); average > 0 && earned > unfaded {
		falls := (unfaded + (earned-unfaded)*s.fades(now, peakTime)) / earned
		peak, earned = peak*falls, earned*falls
	}
	s.setPeaks(peak*left, earned)
	if average > 0 {
		s.latency.Store(max(faded, int64(average*left)))
	}
	s.seen.Store(int64(now))
}

// fades returns what is left of 1 since the peak was brought up to date.
func (s *Stats) fades(now, constant time.Duration) float64 {
	since := max(0, int64(now)-s.seen.Load())
	return math.Exp(-float64(since) / float64(constant))
}

func (s *Stats) peak() float64 {
	return float64(math.Float32frombits(uint32(s.highest.Load()))) //nolint:gosec // the lower half is meant
}

// peaks returns the peak, and what it was before it faded for want of calls.
func (s *Stats) peaks() (peak, earned float64) {
	both := s.highest.Load()
	return float64(math.Float32frombits(uint32(both))), float64(math.Float32frombits(uint32(both >> 32))) //nolint:gosec // the lower half is meant
}

func (s *Stats) setPeaks(peak, earned float64) {
	s.highest.Store(uint64(math.Float32bits(float32(earned)))<<32 | uint64(math.Float32bits(float32(peak))))
}

// Peak returns the latency that a call has to expect, with a memory for bad
// times: it rises to the latency of a slower call at once and falls towards those
// of quicker ones, or without calls towards [Stats.Latency], with a time constant of
// 2.5 s. In the first five seconds of an instance that is new to the list, it is the
// latency of the quickest of its first eight calls. It is 0 before the first.
func (s *Stats) Peak() time.Duration { return time.Duration(s.peak()) }

// InFlight returns the number of calls that have begun and not ended.
func (s *Stats) InFlight() int64 {
	ended := s.ended.Load()              // first: then it is never more than begun
	return int64(s.begun.Load() - ended) //nolint:gosec // small
}

// Latency returns the moving average of successful calls, 0 before the first. Where a
// policy looks at an instance without calls, it fades with a time constant of 10 s.
func (s *Stats) Latency() time.Duration { return time.Duration(s.latency.Load()) }

// Calls returns how many calls ended, and how many of them failed.
func (s *Stats) Calls() (ended, failed uint64) { return s.ended.Load(), s.failures.Load() }

// Listed returns since when, by [Now], a [Table] has known the instance as it is
// now: since it was first listed, or was listed again with another incarnation or
// after a minute's absence. For those of the first list, which the client did not
// see coming, it is when they say that they were started. It is 0 when that is not
// known.
func (s *Stats) Listed() time.Duration { return time.Duration(s.listed.Load()) }
