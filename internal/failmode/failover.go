package failmode

import (
	"context"
	"slices"

	"github.com/tandem-rpc/tandem"
)

// failover tries other instances. When all have been tried, any may be chosen again but the one
// that failed last: an instance that refuses connections has no load, so it would be chosen each time.
func (m *Modes) failover(next tandem.Func) tandem.Func {
	return m.retry(next, true, func(_ context.Context, call *tandem.Call, _ int) bool {
		id := call.Peer.Instance
		if slices.Contains(call.Exclude, id) {
			call.Exclude = nil // all have been tried
		}
		if id != "" {
			call.Exclude = append(call.Exclude, id)
		}
		return true
	})
}
