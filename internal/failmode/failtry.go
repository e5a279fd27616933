package failmode

import (
	"context"
	"math/rand/v2"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/pool"
)

// failtry tries the same instance again, after a pause, if the call has time for it.
func (m *Modes) failtry(next tandem.Func) tandem.Func {
	return m.retry(next, false, func(ctx context.Context, call *tandem.Call, failures int) bool {
		if call.Peer.Instance != "" {
			call.Pin = call.Peer.Instance
		}
		pause := m.cfg.Backoff.Pause(failures, rand.Float64())
		return hasTime(call, pause) && pool.Sleep(ctx, pause)
	})
}
