package turn

import (
	"sync/atomic"
	"time"
)

// Method says whether runs of a method are short enough for goroutines that read. The zero value
// says yes. All connections share it.
type Method struct {
	slow    atomic.Int32 // how many more quick runs there must be, apart from the reader
	suspect atomic.Bool  // the last run took long

	runs   atomic.Int64 // by goroutines that read
	caught atomic.Int64 // value of runs when a run was last caught
}

const (
	slowRuns   = 32
	rareRuns   = 1000                   // a method that is caught less often was interrupted by a busy machine
	slowWeight = 4                      // how many quick runs make up for one that is not: on a busy machine some are
	quickTime  = 50 * time.Microsecond  // within which a run is quick
	longTime   = 200 * time.Microsecond // after which a run is long
)

// IsShort reports whether the next run may be made by the goroutine that reads.
func (m *Method) IsShort() bool { return m.slow.Load() == 0 }

// Ran notes how long a run in the goroutine that reads took. One long run means little on a busy
// machine; two in a row mean that the method does not belong there.
func (m *Method) Ran(took time.Duration) {
	m.runs.Add(1)
	long, suspect := took > longTime, m.suspect.Load()
	if long && suspect {
		m.slow.Store(slowRuns)
	}
	if next := long && !suspect; next != suspect {
		m.suspect.Store(next)
	}
}

// heldUp notes that a run was caught in a goroutine that reads.
func (m *Method) heldUp() {
	runs := m.runs.Load()
	if last := m.caught.Swap(runs); runs-last < rareRuns {
		m.slow.Store(slowRuns)
	}
}

// RanApart notes how long a run in another goroutine took.
func (m *Method) RanApart(took time.Duration) {
	switch slow := m.slow.Load(); {
	case slow == 0:
	case took > quickTime:
		m.slow.Store(min(slow+slowWeight, slowRuns))
	default:
		m.slow.Store(slow - 1)
	}
}
