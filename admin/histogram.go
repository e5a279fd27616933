package admin

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// A histogram has the buckets of an HDR histogram (http://hdrhistogram.org): 16 for each doubling
// of the value, so a value is known to 3 %. The unit is 256 ns, and values beyond 68 s count as
// such.
const (
	unitBits  = 8
	sub       = 16
	mostUnits = 1<<28 - 1
	buckets   = (28-5)*sub + 2*sub
)

// bucketOf returns the bucket of d.
func bucketOf(d time.Duration) int {
	units := uint64(min(max(0, d>>unitBits), mostUnits))
	if units < 2*sub {
		return int(units)
	}
	shift := bits.Len64(units) - 5
	return shift*sub + int(units>>shift) //nolint:gosec // as above
}

// middle returns the middle of a bucket.
func middle(bucket int) time.Duration {
	if bucket < 2*sub {
		return time.Duration(bucket)<<unitBits + 1<<(unitBits-1)
	}
	shift := bucket/sub - 1
	units := time.Duration(bucket%sub+sub) << shift
	return (units + time.Duration(1)<<shift/2) << unitBits
}

// histogram counts calls by how long they took, from the beginning on.
type histogram [buckets]atomic.Uint64

// add counts a call that stands for n.
func (h *histogram) add(d time.Duration, n uint64) { h[bucketOf(d)].Add(n) }

// count is how many calls are in a bucket.
type count struct {
	bucket uint16
	n      uint32
}

// since returns what was added since the counts of before, which it brings up to date.
func (h *histogram) since(before *[buckets]uint64) (added []count) {
	for i := range h {
		n := h[i].Load()
		if n != before[i] {
			added = append(added, count{uint16(i), uint32(n - before[i])}) //nolint:gosec // buckets are few, and a window is short
			before[i] = n
		}
	}
	return added
}

// sums adds up windows.
type sums [buckets]uint64

func (s *sums) add(window []count) {
	for _, c := range window {
		s[c.bucket] += uint64(c.n)
	}
}

// quantiles returns, for each share in ascending order, the time that so many of the calls took
// at most; nil without calls.
func (s *sums) quantiles(shares ...float64) []time.Duration {
	total := uint64(0)
	for _, n := range s {
		total += n
	}
	if total == 0 {
		return nil
	}
	var out []time.Duration
	seen, at := uint64(0), 0
	for _, q := range shares {
		rank := max(1, uint64(q*float64(total)+0.5))
		for seen+s[at] < rank && at < buckets-1 {
			seen += s[at]
			at++
		}
		out = append(out, middle(at))
	}
	return out
}

// counts returns the buckets that are not empty.
func (s *sums) counts() (out []TimeCount) {
	for i, n := range s {
		if n > 0 {
			out = append(out, TimeCount{i, n})
		}
	}
	return out
}

// mean returns the mean time; 0 without calls.
func (s *sums) mean() time.Duration {
	total, calls := 0.0, uint64(0)
	for i, n := range s {
		total += float64(n) * float64(middle(i))
		calls += n
	}
	if calls == 0 {
		return 0
	}
	return time.Duration(total / float64(calls))
}
