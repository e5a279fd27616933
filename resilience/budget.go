// Package resilience holds the policies that keep failures small. They are
// pure: the time is an argument.
package resilience

import (
	"sync"
	"sync/atomic"
	"time"
)

// Budget bounds retries to a share of the calls, so that a failing service is
// not buried under them: retries may be 10 % of the calls plus 10 a second by
// default. The idea and the figures are Finagle's RetryBudget and the Google
// SRE book's (chapter 22): a bucket of tokens, filled by calls and by time,
// that holds what ten seconds bring. Clients count the calls that succeed, as
// gRPC's retry throttling does: a service that fails altogether then gets no
// more retries than the seconds bring. It is safe for concurrent use. The zero
// Budget allows nothing.
type Budget struct {
	share int64 // micro-tokens a call
	rate  int64 // micro-tokens a second
	calls atomic.Int64

	mu     sync.Mutex // taken by retries only
	tokens int64      // micro-tokens
	paid   int64      // calls that have been counted in
	last   time.Time  // when they were
	pace   int64      // micro-tokens a second that lately came in
	since  time.Time  // when it was measured
	sum    int64      // micro-tokens that came in since then
}

const token = 1_000_000

// budgetSpan is how many seconds' income may be saved up.
const budgetSpan = 10

// NewBudget returns a full budget of share retries a call (0.1 is 10 %) plus
// perSecond.
func NewBudget(share float64, perSecond int, now time.Time) *Budget {
	b := &Budget{share: int64(share * token), rate: int64(perSecond) * token, last: now, since: now}
	b.pace = b.rate
	b.tokens = b.most()
	return b
}

// Set changes what comes in from now on. What was saved up stays, as far as the new
// budget may hold it, which is looked at when it is used.
func (b *Budget) Set(share float64, perSecond int, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.earn(now)
	b.share, b.rate = int64(share*token), int64(perSecond)*token
	b.pace, b.since, b.sum = b.rate, now, 0 // until it is known
}

// Call counts a call, which pays for its share of a retry.
func (b *Budget) Call() { b.calls.Add(1) }

// Take spends a retry and reports whether there was one to spend.
func (b *Budget) Take(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.earn(now)
	if b.tokens < token {
		return false
	}
	b.tokens -= token
	return true
}

// Left returns how many retries could be taken now.
func (b *Budget) Left(now time.Time) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.earn(now)
	return float64(b.tokens) / token
}

// earn adds what calls and time have brought since the last time.
func (b *Budget) earn(now time.Time) {
	calls := b.calls.Load()
	gained := (calls - b.paid) * b.share
	b.paid = calls
	if past := now.Sub(b.last); past > 0 {
		gained += int64(past.Seconds() * float64(b.rate))
		b.last = now
	}
	b.sum += gained
	if past := now.Sub(b.since); past >= time.Second { // a shorter time says little about the pace
		b.pace, b.since, b.sum = int64(float64(b.sum)/past.Seconds()), now, 0
	}
	b.tokens = min(b.tokens+gained, b.most())
}

func (b *Budget) most() int64 {
	if b.share == 0 && b.rate == 0 {
		return 0
	}
	return budgetSpan * max(b.pace, b.rate, token)
}
