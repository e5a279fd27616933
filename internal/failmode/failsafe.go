package failmode

import (
	"context"

	"github.com/tandem-rpc/tandem"
)

// failsafe logs an error and returns nil. The error of a stream is returned, as there is no
// stream to return.
func (m *Modes) failsafe(next tandem.Func) tandem.Func {
	return func(ctx context.Context, call *tandem.Call) error {
		err := next(ctx, call)
		o, ok := outgoing(call)
		if err == nil || !ok || call.Kind == tandem.Streaming {
			return err
		}
		m.cfg.Log.Warn("call failed, which Failsafe ignores", "method", call.Method, "instance", call.Peer.Instance, "error", err)
		o.Forgo()
		return nil
	}
}
