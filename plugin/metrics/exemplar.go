package metrics

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem"
)

// Exemplar is a call whose trace is sampled: from a bucket of a latency histogram it leads to a
// trace that shows why such calls take so long.
type Exemplar struct {
	Took time.Duration
	At   time.Time // when the call ended
	ID   [16]byte  // ID of the trace
	Span [8]byte   // ID of the call's span on this side
}

// exemplarLife is the time for which a bucket keeps its exemplar. It bounds the cost: a call
// takes the mutex only if the exemplar of its bucket is older.
const exemplarLife = time.Second

// exemplars holds the exemplars of a method.
type exemplars struct {
	due [Buckets]atomic.Int64 // Unix time in ns from which a bucket takes another one

	mu   sync.Mutex
	kept [Buckets]Exemplar
}

// exemplify keeps a call of a sampled trace as the exemplar of its bucket, if that has none, or
// an old one.
func (c *counters) exemplify(call *tandem.Call, end tandem.Outcome) {
	if !call.Trace.Sampled() || !call.Trace.Valid() {
		return
	}
	e, bucket, at := &c.exemplars, bucketOf(end.Took), end.Began.Add(end.Took)
	due, now := e.due[bucket].Load(), at.UnixNano()
	if now < due || !e.due[bucket].CompareAndSwap(due, now+int64(exemplarLife)) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.kept[bucket] = Exemplar{Took: end.Took, At: at, ID: call.Trace.ID, Span: call.Trace.Span}
}

// list returns the exemplars, by ascending latency.
func (e *exemplars) list() (all []Exemplar) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range e.kept {
		if e.kept[i].ID != [16]byte{} {
			all = append(all, e.kept[i])
		}
	}
	return all
}
