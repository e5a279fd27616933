package session

import (
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem"
)

// Target is a method that a peer may call.
type Target struct {
	Name       string
	Kind       tandem.Kind // Unary or Streaming
	Func       tandem.Func // the whole chain
	Timeout    time.Duration
	MaxMessage int  // 0 for the session's limit
	Spawn      bool // never run in the reader: it may wait

	slow atomic.Int32 // how many more runs are kept out of the reader
}

// A method that held up a reader is kept out of it until it has been quick
// this many times in a row.
const (
	slowRuns  = 256
	quickTime = 50 * time.Microsecond
)

func (t *Target) inline() bool { return !t.Spawn && t.slow.Load() == 0 }

func (t *Target) markSlow() { t.slow.Store(slowRuns) }

// observe learns from a run outside the reader.
func (t *Target) observe(took time.Duration) {
	switch {
	case t.Spawn:
	case took > quickTime:
		t.markSlow()
	case t.slow.Load() > 0:
		t.slow.Add(-1)
	}
}
