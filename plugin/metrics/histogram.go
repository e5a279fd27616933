package metrics

import (
	"math/bits"
	"time"
)

// Buckets is how many buckets a [Histogram] has.
const Buckets = 22

// first is the logarithm of the first bound: 2^14 ns are 16.4 µs.
const first = 14

// Bound returns the upper bound of a bucket: 16.4 µs for the first, and twice the bound before
// it for each other, up to 17.2 s for the last but one. It returns 0 for the last, which has
// no bound.
func Bound(bucket int) time.Duration {
	if bucket >= Buckets-1 {
		return 0
	}
	return 1 << (first + bucket)
}

// bucketOf returns the bucket of d: the first whose bound is d or more.
func bucketOf(d time.Duration) int {
	if d <= 1<<first {
		return 0
	}
	return min(bits.Len64(uint64(d-1))-first, Buckets-1)
}

// Histogram counts calls by how long they took.
type Histogram struct {
	Counts [Buckets]uint64 // calls that took more than the previous bucket's bound, and at most this one's [Bound]
	Sum    time.Duration   // time that all calls took
}

// Count returns how many calls there were.
func (h *Histogram) Count() (n uint64) {
	for _, c := range h.Counts {
		n += c
	}
	return n
}

// Quantile returns an upper bound of the time that the share q of the calls, from 0 to 1, took:
// the bound of a bucket, so at most twice the true time. It is 0 without calls, and the bound
// of the last bucket but one for calls beyond it.
func (h *Histogram) Quantile(q float64) time.Duration {
	total := h.Count()
	if total == 0 {
		return 0
	}
	rank := max(1, uint64(q*float64(total)+0.5))
	for i, c := range h.Counts {
		if c >= rank && i < Buckets-1 {
			return Bound(i)
		}
		rank -= min(c, rank)
	}
	return Bound(Buckets - 2)
}

func (s *shard) sumOf() time.Duration { return time.Duration(s.sum.Load()) }
