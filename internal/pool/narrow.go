package pool

import (
	"slices"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
)

// wanted returns the instances that the policy wants to be connected to.
func (p *Pool) wanted(instances []tandem.Instance) map[string]bool {
	if narrow := p.rules.Load().Needs.Narrow; narrow != nil {
		instances = narrow(instances)
	}
	wanted := make(map[string]bool, len(instances))
	for _, in := range instances {
		wanted[in.ID] = true
	}
	return wanted
}

// connectForCall connects to an instance that the policy does not want to be connected to, because a
// call goes there. It returns nil if the instance is not listed any more.
func (p *Pool) connectForCall(n *balance.Node) *member {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := p.view.Load()
	i := v.place(n)
	if i < 0 {
		return nil
	}
	if m := v.members[i]; m != nil || p.closed.Load() {
		return m
	}
	m := p.join(&n.Instance)
	m.connectedForCall.Store(true)
	next := *v
	next.members = slices.Clone(v.members)
	next.members[i] = m
	p.view.Store(&next)
	return m
}
