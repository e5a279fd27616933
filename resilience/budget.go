// Package resilience (stable) holds the policies that limit failures: budgets of retries, backoff,
// circuit breakers and outlier detection. They are pure: the time is an argument.
package resilience

import (
	"sync"
	"sync/atomic"
	"time"
)

// Budget bounds retries to a share of the calls, so that they do not overload a failing
// service: by default to 10 % of the calls plus 10 a second. The idea and the figures are those
// of Finagle's RetryBudget and the Google SRE book (chapter 22): a bucket of tokens, filled by
// calls and by time, that holds the tokens of ten seconds. Clients count the calls that
// succeed, as gRPC's retry throttling does: at a service that fails altogether only the retries
// a second remain. It is safe for concurrent use. The zero Budget allows nothing.
type Budget struct {
	share int64 // micro-tokens a call
	rate  int64 // micro-tokens a second
	calls atomic.Int64

	mu     sync.Mutex // taken by retries only
	tokens int64      // micro-tokens
	paid   int64      // calls whose tokens have been added
	last   time.Time  // when tokens were last added
	pace   int64      // recent income in micro-tokens a second
	since  time.Time  // when the measurement of pace began
	sum    int64      // micro-tokens that were added since then

	refused uint64 // times that Take found no token
}

const token = 1_000_000

// budgetSpan is how many seconds' tokens the bucket holds.
const budgetSpan = 10

// NewBudget returns a full budget of share retries a call (0.1 is 10 %) plus
// perSecond.
func NewBudget(share float64, perSecond int, now time.Time) *Budget {
	b := &Budget{share: int64(share * token), rate: int64(perSecond) * token, last: now, since: now}
	b.pace = b.rate
	b.tokens = b.most()
	return b
}

// Set changes the tokens that calls and time add from now on. Tokens in the bucket stay, up to
// the new size, which is applied when the budget is next used.
func (b *Budget) Set(share float64, perSecond int, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.earn(now)
	b.share, b.rate = int64(share*token), int64(perSecond)*token
	b.pace, b.since, b.sum = b.rate, now, 0 // until it is measured
}

// Call counts a call, which adds its share of a token.
func (b *Budget) Call() { b.calls.Add(1) }

// Take takes a token for a retry and reports whether there was one.
func (b *Budget) Take(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.earn(now)
	if b.tokens < token {
		b.refused++
		return false
	}
	b.tokens -= token
	return true
}

// Refused returns how often Take has returned false: retries that were not made.
func (b *Budget) Refused() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refused
}

// Left returns how many retries the tokens allow now.
func (b *Budget) Left(now time.Time) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.earn(now)
	return float64(b.tokens) / token
}

// earn adds the tokens of calls and time since it was last called.
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
