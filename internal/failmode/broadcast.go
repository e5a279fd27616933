package failmode

import (
	"context"
	"errors"
	"math"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/session"
)

// broadcast makes the call at every instance that is connected or being connected, at most
// Config.BroadcastAtOnce at a time. An instance that refuses the call because it is draining does
// not count. Streams and pinned calls are made once, as without Broadcast.
func (m *Modes) broadcast(next tandem.Func) tandem.Func {
	return func(ctx context.Context, call *tandem.Call) error {
		if call.Kind == tandem.Streaming || call.Pin != "" {
			return next(ctx, call)
		}
		if err := m.cfg.Pool.Listed(ctx, call); err != nil {
			return err
		}
		ids := m.cfg.Pool.Reachable(call)
		if len(ids) == 0 {
			return next(ctx, call) // which returns the reason
		}
		r := newParallelCall(ctx, call, next)
		defer r.settle()
		for len(ids) > 0 || r.running > 0 {
			if len(ids) > 0 && r.running < m.cfg.BroadcastAtOnce {
				r.start(ids[0])
				ids = ids[1:]
				continue
			}
			r.wait()
		}
		return m.verdict(r.done)
	}
}

// verdict returns nil if enough of the attempts have succeeded.
func (m *Modes) verdict(done []result) error {
	var failed failures
	succeeded := 0
	for _, res := range done {
		switch {
		case res.err == nil:
			succeeded++
		case !errors.Is(res.err, session.ErrDraining):
			failed = append(failed, res)
		}
	}
	members := succeeded + len(failed)
	switch {
	case members == 0: // all are leaving
		return failures(done).of(len(done))
	case succeeded >= max(1, int(math.Ceil(m.cfg.BroadcastShare*float64(members)))):
		return nil
	}
	return failed.of(members)
}
