package failmode

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/call"
	"github.com/tandem-rpc/tandem/resilience"
)

// hedging is the client's state for second attempts.
type hedging struct {
	latencies resilience.Latencies
	budget    *resilience.Budget // budget of second attempts, which use the client's retry budget, too
	made      time.Time
	rests     atomic.Int64 // ns after made, until which there are no second attempts
}

const (
	hedgeQuantile = 0.95        // quantile of a method's latency after which there is a second attempt
	hedgeRest     = time.Second // time without second attempts after a server has reported an overload
	hedgeBusy     = 90          // utilization in percent from which a server counts as overloaded
)

func (h *hedging) init(share float64) {
	now := time.Now()
	h.made, h.budget = now, resilience.NewBudget(share, 0, now)
	for h.budget.Take(now) {
		// Empties the budget: second attempts are a share of the calls made, with none in
		// advance.
	}
}

// hedge makes a second attempt, at another instance, when the first takes longer than 95 % of
// the method's calls: "hedged requests" (Dean & Barroso, "The Tail at Scale", CACM 2013). The
// first response wins, and the other attempt is cancelled.
func (m *Modes) hedge(next tandem.Func) tandem.Func {
	h := &m.hedges
	return func(ctx context.Context, call *tandem.Call) error {
		o, ok := outgoing(call)
		latency := h.latencies.Of(call.Method)
		if !ok || !call.Idempotent || call.Kind != tandem.Unary || call.Pin != "" || latency == nil {
			return next(ctx, call)
		}
		began := time.Now()
		h.budget.Call()
		var err error
		if delay, known := latency.Quantile(hedgeQuantile); known && int64(began.Sub(h.made)) >= h.rests.Load() && !servesRetry(ctx) {
			err = m.race(ctx, call, next, delay)
		} else {
			err = next(ctx, call)
		}
		// If the second attempt won, this is only a lower bound of the first attempt's latency,
		// but it is above the quantile all the same.
		now := time.Now()
		if err == nil {
			latency.Observe(now.Sub(began), now)
		}
		if overloaded(o, err) {
			h.rests.Store(int64(now.Add(hedgeRest).Sub(h.made)))
		}
		return err
	}
}

// race makes the first attempt and, after the delay, the second.
func (m *Modes) race(ctx context.Context, call *tandem.Call, next tandem.Func, delay time.Duration) error {
	r := newParallelCall(ctx, call, next)
	defer r.settle()
	r.start("")
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case res := <-r.results:
		return r.note(res).err
	case <-timer.C:
	}
	if id := m.second(call); id != "" {
		r.start(id)
	}
	return r.first(func(error) {})
}

// second returns the instance for a second attempt; "" if there is to be none.
func (m *Modes) second(call *tandem.Call) string {
	o, _ := outgoing(call) // hedge has checked that it is one
	tried := o.Tried()
	if len(tried) == 0 { // the first attempt does not even have a connection yet
		return ""
	}
	id := m.cfg.Pool.Choose(call, append(tried, call.Exclude...))
	if id == "" || !m.hedges.budget.Take(time.Now()) || !m.cfg.Budget.Take(time.Now()) {
		return ""
	}
	return id
}

// overloaded reports whether a server said that it is overloaded, so that more attempts would
// not help.
func overloaded(o *call.Outgoing, err error) bool {
	if err == nil {
		load, known := o.Load()
		return known && load.Utilization >= hedgeBusy
	}
	e := tandem.AsError(err)
	return e.Code == tandem.ResourceExhausted || e.RetryAfter != 0
}
