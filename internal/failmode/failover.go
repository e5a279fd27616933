package failmode

import (
	"context"

	"github.com/tandem-rpc/tandem"
)

// failover tries other instances. When all have been tried, any may be chosen again.
func (m *Modes) failover(next tandem.Func) tandem.Func {
	return m.retry(next, true, func(_ context.Context, call *tandem.Call, _ int) bool {
		if id := call.Peer.Instance; id != "" {
			call.Exclude = append(call.Exclude, id)
		}
		return true
	})
}
