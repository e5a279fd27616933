package pool

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/internal/call"
	"github.com/tandem-rpc/tandem/wire"
)

// A server under overload spends time on each call that it refuses. Calls of a method that an
// instance mostly refuses are therefore refused here, so many that the client sends about twice
// what the instance accepts (client-side throttling, chapter 21 of Site Reliability
// Engineering, Beyer and others 2016). The first response that says that no call waits at the
// server ends it: numbers that only fade would hold back calls for seconds.

// throttles are the throttles of an instance, by method: for methods that it has refused
// lately.
type throttles struct {
	some atomic.Bool // byMethod is not empty; if it is, a call costs one load

	mu       sync.Mutex
	byMethod map[string]*throttle
}

// throttle is what an instance lately did with the calls of a method. Both numbers fade.
type throttle struct {
	requests float64       // calls of the method, those refused here included
	accepts  float64       // calls that the instance did not refuse
	at       time.Duration // when both numbers last faded, by balance.Now
	passed   time.Duration // when a call was last let through
	refused  time.Duration // when the instance last refused a call
}

const maxThrottles = 256 // throttles of an instance; further methods have none

// refuses reports whether a call is not to be sent, and counts it.
func (t *throttles) refuses(method string, cfg *Config) bool {
	if !t.some.Load() {
		return false
	}
	now := balance.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.byMethod[method]
	if one == nil {
		return false
	}
	one.fade(now, cfg)
	one.requests++
	if rand.Float64() < one.share(cfg) && now-one.passed < cfg.ThrottleProbe {
		return true
	}
	one.passed = now
	return false
}

// share is the probability with which a call is not sent.
func (t *throttle) share(cfg *Config) float64 {
	return max(0, (t.requests-cfg.ThrottleSent*t.accepts)/(t.requests+1))
}

// share is the probability with which a call of the method is not sent now.
func (t *throttles) share(method string, cfg *Config) float64 {
	if !t.some.Load() {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.byMethod[method]
	if one == nil {
		return 0
	}
	one.fade(balance.Now(), cfg)
	return one.share(cfg)
}

// answered counts how a call that was sent has ended. calm means that no call waits at the
// server.
func (t *throttles) answered(method string, err error, calm bool, cfg *Config) {
	refused := err != nil && isRefusal(err)
	if !refused && !t.some.Load() || cfg.ThrottleSent == 0 {
		return
	}
	now := balance.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.byMethod[method]
	switch {
	case one == nil && refused:
		t.addLocked(method, now, cfg)
	case one == nil:
	case refused:
		one.refused = now
	case calm, now-one.refused > cfg.ThrottleEnds:
		t.removeLocked(method)
	default:
		one.fade(now, cfg)
		one.accepts++
	}
}

func (t *throttles) addLocked(method string, now time.Duration, cfg *Config) {
	if t.byMethod == nil {
		t.byMethod = map[string]*throttle{}
	}
	if len(t.byMethod) == maxThrottles {
		return
	}
	t.byMethod[method] = &throttle{requests: float64(cfg.ThrottleAccepted + 1), accepts: float64(cfg.ThrottleAccepted), at: now, passed: now, refused: now}
	t.some.Store(true)
}

func (t *throttles) removeLocked(method string) {
	delete(t.byMethod, method)
	t.some.Store(len(t.byMethod) > 0)
}

func (t *throttle) fade(now time.Duration, cfg *Config) {
	left := math.Exp(-float64(now-t.at) / float64(cfg.ThrottleFades))
	t.requests *= left
	t.accepts *= left
	t.at = now
}

// invoke makes the call, and records in the throttles how it ended.
func (a *attempt) invoke(ctx context.Context, made *tandem.Call, cfg *Config) (err error) {
	throttles, calm := &a.member.throttles, false
	report := a.report
	if throttles.some.Load() {
		report = func(l wire.Load) {
			calm = l.Queued == 0
			if a.report != nil {
				a.report(l)
			}
		}
	}
	if a.conn.Own == nil {
		err = a.conn.Foreign.Invoke(ctx, made)
	} else {
		err = call.Invoke(ctx, a.conn.Own, made, report)
	}
	throttles.answered(made.Method, err, calm, cfg)
	return err
}

// isRefusal reports whether an instance has refused a call because it is overloaded.
func isRefusal(err error) bool {
	e := tandem.AsError(err)
	return e.Code == tandem.ResourceExhausted && e.NotExecuted && e.RetryAfter > 0
}

// throttled is the error of a call that is not sent.
func throttled(call *tandem.Call, cfg *Config) error {
	e := tandem.Errorf(tandem.ResourceExhausted, "%s is overloaded and refuses most calls of %s: this one was not sent", call.Peer.Addr, call.Method)
	e.NotExecuted, e.RetryAfter = true, cfg.ThrottlePause
	return e
}
