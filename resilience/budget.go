// Package resilience holds the policies that keep failures small. They are
// pure: the time is an argument.
package resilience

import (
	"sync/atomic"
	"time"
)

// Budget bounds retries to a share of the calls, so that a failing service is
// not buried under them: retries may be 10 % of the calls plus 10 a second by
// default. The idea and the figures are Finagle's RetryBudget and the Google
// SRE book's (chapter 22); a bucket of tokens, filled by calls and by time.
// It is safe for concurrent use. The zero Budget allows nothing.
type Budget struct {
	share   int64 // micro-tokens a call
	rate    int64 // micro-tokens a second
	most    int64
	tokens  atomic.Int64
	updated atomic.Int64 // when time last filled it, in Unix nanoseconds
}

const token = 1_000_000

// budgetSpan is how many seconds of the rate may be saved up.
const budgetSpan = 10

// NewBudget returns a full budget of share retries a call (0.1 is 10 %) plus
// perSecond.
func NewBudget(share float64, perSecond int) *Budget {
	b := &Budget{share: int64(share * token), rate: int64(perSecond) * token}
	b.most = budgetSpan * max(b.rate, token)
	b.tokens.Store(b.rate)
	return b
}

// Call counts a call, which pays for its share of a retry.
func (b *Budget) Call() {
	if b.tokens.Load() < b.most {
		b.tokens.Add(b.share)
	}
}

// Take spends a retry and reports whether there was one to spend.
func (b *Budget) Take(now time.Time) bool {
	b.fill(now.UnixNano())
	for {
		have := b.tokens.Load()
		if have < token {
			return false
		}
		if b.tokens.CompareAndSwap(have, have-token) {
			return true
		}
	}
}

func (b *Budget) fill(now int64) {
	last := b.updated.Load()
	if now <= last || !b.updated.CompareAndSwap(last, now) || last == 0 {
		return
	}
	gained := min(float64(now-last)/1e9*float64(b.rate), float64(b.most))
	if b.tokens.Add(int64(gained)) > b.most {
		b.tokens.Store(b.most)
	}
}
