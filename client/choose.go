package client

import (
	"context"
	"slices"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
)

// choose returns the instance that the policy takes for a call of those that
// have not been tried: one that answers, or else is being connected; "" if
// there is none. There must be a list.
func (p *pool) choose(call *tandem.Call, tried []string) string {
	v := p.view.Load()
	for _, good := range []func(*balance.Node) bool{p.isUsable, p.isWell, p.isConnecting} {
		if n := v.picker.Pick(call, func(n *balance.Node) bool {
			return !slices.Contains(tried, n.Instance.ID) && good(n)
		}); n != nil {
			return n.Instance.ID
		}
	}
	return ""
}

// reachable returns the instances that the call may go to and that are connected
// or being connected. There must be a list.
func (p *pool) reachable(call *tandem.Call) (ids []string) {
	for _, n := range p.view.Load().nodes {
		if allowed(call, n) && (p.isLive(n) || p.isConnecting(n)) {
			ids = append(ids, n.Instance.ID)
		}
	}
	return ids
}

// listed waits for the first list.
func (p *pool) listed(ctx context.Context, call *tandem.Call) error {
	if p.view.Load() != nil {
		return nil
	}
	return p.waitFirst(ctx, call)
}
