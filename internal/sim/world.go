// Package sim plays clusters in virtual time: thousands of clients and servers on one core, in
// the order of one heap of events, without a goroutine. The parts that decide are the real
// ones, imported as they are: the policies of package balance, the budget and the backoff of
// package resilience, the keeper of package registry. Only their surroundings are simulated:
// servers with workers and queues, a network that delays, clients that make calls.
//
// A [Scenario] is a fault that real clusters have, with figures that the defence must reach,
// the same fault under a naive policy, and planted faults: each takes a part of the defence
// away and must make a figure miss. The seed alone decides a run, which repeats bit for bit on
// the same architecture; [Outcome] has a digest of all events.
//
//	go run ./internal/sim/cmd/sim -out docs/sim
package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tandem-rpc/tandem/balance"
)

// world is the clock, the planned events, and the source of random numbers.
type world struct {
	now     time.Duration
	events  []event // a binary heap, the next one first
	planned uint64  // number of events so far
	random  *rand.Rand
	log     uint64 // digest of all events that happened
	broken  []string
}

// event is something that will happen.
type event struct {
	at   time.Duration
	turn uint64 // of two events at the same instant, the one planned first comes first
	do   func()
}

// began is the clock's first value: 0 would mean "not measured" to Stats.
const began = time.Second

// origin is the date of the clock's zero.
var origin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newWorld(seed uint64) *world {
	return &world{now: began, random: rand.New(rand.NewPCG(seed, 0)), log: 14695981039346656037}
}

// since returns how long the world has existed.
func (w *world) since() time.Duration { return w.now - began }

// time returns the instant as a date.
func (w *world) time() time.Time { return origin.Add(w.now) }

// balance returns the world for pickers and Stats.
func (w *world) balance() *balance.World {
	return &balance.World{Now: func() time.Duration { return w.now }, Random: w.random.Uint64, Origin: origin}
}

// after plans an event.
func (w *world) after(d time.Duration, do func()) {
	w.planned++
	w.events = append(w.events, event{w.now + max(d, 0), w.planned, do})
	for i := len(w.events) - 1; i > 0; {
		above := (i - 1) / 2
		if !w.events[i].before(w.events[above]) {
			break
		}
		w.events[i], w.events[above] = w.events[above], w.events[i]
		i = above
	}
}

func (e event) before(other event) bool {
	return e.at < other.at || e.at == other.at && e.turn < other.turn
}

// every repeats an event, first after d.
func (w *world) every(d time.Duration, do func()) {
	w.after(d, func() {
		do()
		w.every(d, do)
	})
}

// run plays the events until the world is that old.
func (w *world) run(until time.Duration) {
	for len(w.events) > 0 && w.events[0].at <= began+until {
		e := w.next()
		if e.at < w.now {
			w.breaksf("time went back from %v to %v", w.now, e.at)
		}
		w.now = e.at
		e.do()
	}
	w.now = began + until
}

// next takes the first event from the heap.
func (w *world) next() event {
	h := w.events
	first, last := h[0], len(h)-1
	moved := h[last]
	h[last] = event{}
	h = h[:last]
	i := 0 // where moved may go
	for child := 1; child < last; child = 2*i + 1 {
		if child+1 < last && h[child+1].before(h[child]) {
			child++
		}
		if moved.before(h[child]) {
			break
		}
		h[i] = h[child]
		i = child
	}
	if last > 0 {
		h[i] = moved
	}
	w.events = h
	return first
}

// Kinds of steps in the digest.
const (
	noteSent = iota
	noteServed
	noteEnded
	noteConnected
	noteListed
)

// note adds a step to the digest: FNV-1a over words instead of bytes.
func (w *world) note(what int, who, how uint64) {
	for _, word := range [...]uint64{uint64(w.now), uint64(what), who, how} { //nolint:gosec // bits are mixed
		w.log = (w.log ^ word) * 1099511628211
		w.log ^= w.log >> 29
	}
}

// breaksf records that an invariant does not hold, at most a hundred times.
func (w *world) breaksf(format string, args ...any) {
	if len(w.broken) < 100 {
		w.broken = append(w.broken, fmt.Sprintf("at %v: ", w.since())+fmt.Sprintf(format, args...))
	}
}

// about draws a duration from half of d to one and a half.
func (w *world) about(d time.Duration) time.Duration {
	return d/2 + time.Duration(w.random.Int64N(int64(d)+1))
}

// gap draws the time between two arrivals of a Poisson process.
func (w *world) gap(perSecond float64) time.Duration {
	return time.Duration(w.random.ExpFloat64() / perSecond * float64(time.Second))
}
