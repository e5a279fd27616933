// Package balance (stable) chooses an instance for each call. A [Policy] turns a list of nodes into a
// [Picker]. The [Stats] of a node are kept outside the pickers, so they survive a change of the
// list. A [Table] keeps the policy, the list and the Stats of a client.
package balance

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem"
)

// Policy makes pickers. It is a value; one may serve many clients. A policy that changes what
// another policy does embeds that one, as a Policy, and has a Build of its own.
type Policy interface {
	Name() string
	// Needs returns what the policy needs from the client and the [Table] that use it.
	Needs() Needs
	// Build returns a picker over the nodes, which it may keep but not change. nodes may be
	// empty. Build is called on every change of the list.
	Build(nodes []*Node) Picker
}

// Picker chooses a node for each call. It is safe for concurrent use and takes no lock.
type Picker interface {
	// Pick returns a node for the call for which usable is true, or nil if there is none.
	// usable takes the call's pin, its exclusions and the node's health into account. Pick must
	// not keep the call.
	Pick(call *tandem.Call, usable func(*Node) bool) *Node
}

// Node is an instance that can be chosen.
type Node struct {
	Instance tandem.Instance
	Stats    *Stats // shared by every Node of the same instance ID
	world    *World // source of time and random numbers; nil: the process's

	memories *memories // of the table; nil for a node that belongs to none
}

// Weight returns the instance's weight, or 100 if it has none; always valid, from 1 to
// [tandem.MaxWeight].
func (n *Node) Weight() int {
	if n.Instance.Weight == 0 {
		return tandem.DefaultWeight
	}
	return min(max(n.Instance.Weight, 1), tandem.MaxWeight)
}

// Stats are what one client knows about one instance; they are not kept while that is its only
// one. Its methods are atomic and safe for concurrent use.
type Stats struct {
	begun    atomic.Uint64
	ended    atomic.Uint64
	failures atomic.Uint64
	latency  atomic.Int64          // ns; moving average
	highest  atomic.Uint64         // ns, a float64; see Peak. Its sign bit: see refusing
	seen     atomic.Int64          // when highest was last updated; in the future while it is held
	listed   atomic.Int64          // since when the instance is known; see Listed
	reported atomic.Uint64         // from the last response; see Report
	_        [cacheLine - 8*8]byte // so that two instances never share a line
}

// cacheLine is the size in bytes of a processor's cache line.
const cacheLine = 64

var processBegan = time.Now()

// Now is the clock of [Stats]: the time since the process began.
func Now() time.Duration { return time.Since(processBegan) }

// Begin counts a call that starts.
func (s *Stats) Begin() { s.begun.Add(1) }

// Done counts a call that has ended. began is when it began, by [Now]; 0 if that was not
// measured.
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
		s.setRefusing(failed)
		return
	}
	took := now - began
	s.observe(now, took, failed)
	if !failed {
		s.average(took)
	}
}

// RefusedAt counts a call that the instance refused at the instant now, by the clock of a
// [World], because it is overloaded. A quick refusal is no sign of a quick instance: until it
// serves a call, policies that look at calls in flight or latencies give it no more than an
// even share.
func (s *Stats) RefusedAt(now time.Duration) {
	s.hold(now)
	s.ended.Add(1)
}

// hold notes that a call was refused, or failed at once, and keeps the latency from fading
// until the instance has had no calls for memoryTime.
func (s *Stats) hold(now time.Duration) {
	s.setRefusing(true)
	s.seen.Store(int64(now + memoryTime))
}

// refusingBit is the sign of Stats.highest, so that a pick reads both at once.
const refusingBit = 1 << 63

// refusing reports whether the last call that ended was refused or failed. An instance that
// refuses its calls, or fails them at once, has none in flight, so a policy would take it for
// the least loaded.
func (s *Stats) refusing() bool { return s.highest.Load()&refusingBit != 0 }

func (s *Stats) setRefusing(refusing bool) {
	switch {
	case refusing == s.refusing(): // the usual case, which writes nothing
	case refusing:
		s.highest.Or(refusingBit)
	default:
		s.highest.And(^uint64(refusingBit))
	}
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

// Time constants with which a peak falls to the average, and with which both fade while an
// instance has no calls.
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

// faded is the latency of an instance whose latency has faded away; 0 is that of one that has
// never answered.
const faded = 1 // ns

// failedLatency is the expected latency of an instance of which only a failed call is known.
const failedLatency = time.Second

// observe updates the peak: it rises at once and falls with time; for a newcomer it is the
// lowest sample. A call that failed quickly does not count; if it was the first, it counts as a
// slow one.
func (s *Stats) observe(now, took time.Duration, failed bool) {
	old := s.peak()
	sample, sign := float64(took), uint64(0)
	switch {
	case failed && sample < old:
		s.hold(now)
		return
	case failed && old == 0:
		sample, sign = max(sample, float64(failedLatency)), refusingBit
	case failed:
		sign = refusingBit
	case old > 0 && s.isNewcomer(now):
		sample = min(sample, old)
	case sample < old:
		sample += (old - sample) * s.fades(now, peakTime)
	}
	s.highest.Store(sign | math.Float64bits(sample))
	s.seen.Store(int64(now))
}

// isNewcomer reports whether the instance is new to the list.
func (s *Stats) isNewcomer(now time.Duration) bool {
	listed := s.listed.Load()
	return s.hardlyKnown() && listed != 0 && now-time.Duration(listed) < newcomerTime
}

// silent reports whether calls have ended, but none of them gave a latency.
func (s *Stats) silent() bool { return s.latency.Load() == 0 && s.ended.Load() > 0 }

// hardlyKnown reports whether few calls have ended.
func (s *Stats) hardlyKnown() bool { return s.ended.Load() <= newcomerCalls }

// age lets latencies fade without calls, the peak to the average and both to nothing, so that
// an instance that was avoided for being slow is tried again. While calls are in flight nothing
// fades: an instance that never answers must not look quick.
func (s *Stats) age(now time.Duration) {
	if int64(now)-s.seen.Load() < int64(peakTime)/100 || s.InFlight() > 0 {
		return
	}
	left, average := s.fades(now, memoryTime), float64(s.latency.Load())
	highest := s.highest.Load()
	peak := math.Float64frombits(highest &^ refusingBit)
	if average > 0 && peak > average {
		peak = average + (peak-average)*s.fades(now, peakTime)
	}
	if !s.highest.CompareAndSwap(highest, highest&refusingBit|math.Float64bits(peak*left)) {
		return // a call has ended
	}
	if average > 0 {
		s.latency.Store(max(faded, int64(average*left)))
	}
	s.seen.Store(int64(now))
}

// fades returns what is left of 1 since the peak was last updated, with that time constant.
func (s *Stats) fades(now, constant time.Duration) float64 {
	since := max(0, int64(now)-s.seen.Load())
	return math.Exp(-float64(since) / float64(constant))
}

func (s *Stats) peak() float64 { return math.Float64frombits(s.highest.Load() &^ refusingBit) }

// signedPeak is peak, negative or -0 while the instance is refusing.
func (s *Stats) signedPeak() float64 { return math.Float64frombits(s.highest.Load()) }

// Peak returns the latency that a call must expect. It rises to the latency of a slower call at
// once, and falls towards those of quicker calls, or without calls towards [Stats.Latency],
// with a time constant of 2.5 s. In the first five seconds of an instance that is new to the
// list, it is the latency of the quickest of its first eight calls. It is 0 before the first
// call.
func (s *Stats) Peak() time.Duration { return time.Duration(s.peak()) }

// InFlight returns the number of calls that have begun and not ended.
func (s *Stats) InFlight() int64 {
	ended := s.ended.Load()              // first: then it is never more than begun
	return int64(s.begun.Load() - ended) //nolint:gosec // small
}

// Latency returns the moving average of successful calls, 0 before the first. While the
// instance has no calls, and a policy looks at it, it fades with a time constant of 10 s.
func (s *Stats) Latency() time.Duration { return time.Duration(s.latency.Load()) }

// Calls returns how many calls ended, and how many of them failed.
func (s *Stats) Calls() (ended, failed uint64) { return s.ended.Load(), s.failures.Load() }

// Listed returns since when, by [Now], a [Table] has known the instance: since it was first
// listed, or was listed again with another incarnation or after a minute's absence. For
// instances of the first list it is when they were started, as they report it. It is 0 if that
// is not known.
func (s *Stats) Listed() time.Duration { return time.Duration(s.listed.Load()) }
