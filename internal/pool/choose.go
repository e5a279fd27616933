package pool

import (
	"context"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
)

// Choose returns the ID of the instance that the policy picks for a call among those not in
// tried: a usable one, else one that answers, else one that is being connected; "" if there is
// none. The view must not be nil.
func (p *Pool) Choose(call *tandem.Call, tried []string) string {
	v := p.view.Load()
	other := *call
	other.Exclude = tried // a policy records nothing from a pick with exclusions
	for _, good := range []func(*balance.Node) bool{p.isUsable, p.isWell, p.isConnecting} {
		if n := v.picker.Pick(&other, func(n *balance.Node) bool {
			return allowed(&other, n) && good(n) && !p.health.open(v.member(n), call)
		}); n != nil {
			return n.Instance.ID
		}
	}
	return ""
}

// Reachable returns the instances that the call may go to and that are connected or being
// connected. The view must not be nil.
func (p *Pool) Reachable(call *tandem.Call) (ids []string) {
	nodes := p.view.Load().nodes
	usable := func(n *balance.Node) bool { return allowed(call, n) && (p.isLive(n) || p.isConnecting(n)) }
	if eligible := p.rules.Load().Needs.Eligible; eligible != nil {
		nodes = eligible(nodes, call, usable)
	}
	for _, n := range nodes {
		if usable(n) {
			ids = append(ids, n.Instance.ID)
		}
	}
	return ids
}

// Listed waits for the first list of instances.
func (p *Pool) Listed(ctx context.Context, call *tandem.Call) error {
	if p.view.Load() != nil {
		return nil
	}
	return p.waitFirst(ctx, call)
}
