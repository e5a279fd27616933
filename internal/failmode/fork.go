package failmode

import (
	"context"
	"errors"
	"slices"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/session"
)

// fork makes the call at several instances in parallel and takes the first response. An
// instance that is draining is replaced by another. Streams and pinned calls are made once, as
// without Fork.
func (m *Modes) fork(next tandem.Func) tandem.Func {
	return func(ctx context.Context, call *tandem.Call) error {
		if call.Kind == tandem.Streaming || call.Pin != "" {
			return next(ctx, call)
		}
		if err := m.cfg.Pool.Listed(ctx, call); err != nil {
			return err
		}
		r := newParallelCall(ctx, call, next)
		defer r.settle()
		tried := slices.Clone(call.Exclude)
		startAtAnother := func() bool {
			id := m.cfg.Pool.Choose(call, tried)
			if id != "" {
				tried = append(tried, id)
				r.start(id)
			}
			return id != ""
		}
		for r.begun < m.cfg.Forks && startAtAnother() {
			// until there are enough attempts, or no instance is left
		}
		if r.begun == 0 {
			return next(ctx, call) // which returns the reason
		}
		return r.first(func(err error) {
			if errors.Is(err, session.ErrDraining) {
				startAtAnother()
			}
		})
	}
}

// first returns nil as soon as an attempt succeeds. It calls failed for each attempt that
// fails.
func (r *parallelCall) first(failed func(error)) error {
	var all failures
	for r.running > 0 {
		res := r.wait()
		if res.err == nil {
			return nil
		}
		all = append(all, res)
		failed(res.err)
	}
	return all.of(len(all))
}
