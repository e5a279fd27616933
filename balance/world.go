package balance

import (
	"math/rand/v2"
	"time"
)

// World is the source of time and random numbers of a [Table] and its pickers, so that a
// simulation can run them on its own clock and repeat a run exactly. In a simulation calls end
// with [Stats.DoneAt], and reported loads go to [Stats.ReportAt]. One thing is still random:
// where [Sticky] stores a key, which matters when there are more keys than it holds. A nil
// World is the process's: [Now], and math/rand/v2. A World is as safe for concurrent use as its
// functions are.
type World struct {
	Now    func() time.Duration // the time since an instant in the past: above 0, and never less than before
	Random func() uint64        // any 64 bits are as likely as any others
	Origin time.Time            // the instant that Now counts from, as instances know it in Started
}

// worldOf returns the world of the nodes of one list.
func worldOf(nodes []*Node) *World {
	if len(nodes) == 0 {
		return nil
	}
	return nodes[0].world
}

func (w *World) now() time.Duration {
	if w == nil {
		return Now()
	}
	return w.Now()
}

func (w *World) random() uint64 {
	if w == nil {
		return rand.Uint64()
	}
	return w.Random()
}

// processRandom is random of the nil World. It is inlined, for which random is too large:
// pickers call it if their world is nil, to save a call.
func processRandom() uint64 { return rand.Uint64() }

// intN returns a number from 0 to n-1.
func (w *World) intN(n int) int {
	if w == nil {
		return rand.IntN(n)
	}
	return int(w.Random() >> 32 * uint64(n) >> 32) //nolint:gosec // below n
}

// float returns a number from 0 to below 1.
func (w *World) float() float64 {
	if w == nil {
		return rand.Float64()
	}
	return float64(w.Random()>>11) / (1 << 53)
}

// since returns how long ago an instant was.
func (w *World) since(t time.Time) time.Duration {
	if w == nil {
		return time.Since(t)
	}
	return w.Origin.Add(w.Now()).Sub(t)
}
