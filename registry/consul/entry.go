package consul

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
)

// entry is a [registry.Entry]: one service of an agent. Its methods are called one
// at a time.
type entry struct {
	agents *agents
	place  place
	owner  string // what tells our service from those of others under the same ID

	in     tandem.Instance               // what the last Put was to list
	listed *api.AgentServiceRegistration // how
	host   *api.Client                   // by which agent; nil before the first Put
}

// Put registers the service with the agent in use, or with the next that answers.
func (e *entry) Put(ctx context.Context, in tandem.Instance) error {
	reg, err := e.place.registration(in)
	if err != nil {
		return err
	}
	reg.Meta[ownerKey] = e.owner
	e.in, e.listed = in, reg
	for left := len(e.agents.hosts); left > 0; left-- {
		var n int64
		e.host, n = e.agents.host()
		if err = e.putWithin(ctx, left); err == nil || !elsewhere(err) {
			return err
		}
		e.agents.failed(n, err)
	}
	return err
}

// putWithin gives the agent its share of the time that is left for several.
func (e *entry) putWithin(ctx context.Context, agents int) error {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(agents))
		defer cancel()
	}
	return e.put(ctx)
}

func (e *entry) put(ctx context.Context) error {
	there, err := e.look(ctx)
	if err != nil {
		return err
	}
	if there != nil && e.superseded(there) {
		return registry.ErrSuperseded
	}
	if err = e.host.Agent().ServiceRegisterOpts(e.listed, api.ServiceRegisterOpts{ReplaceExistingChecks: true}.WithContext(ctx)); err != nil {
		return err
	}
	// A check that was there keeps its state, which may be critical. That of a new one
	// passes, but the agent keeps it on disk only when it is renewed: one that is killed
	// before would come back with it critical.
	return e.renew(ctx)
}

// look returns the service that the agent has under our ID, nil for none.
func (e *entry) look(ctx context.Context) (*api.AgentService, error) {
	there, _, err := e.host.Agent().Service(e.listed.ID, (&api.QueryOptions{}).WithContext(ctx))
	if notFound(err) {
		return nil, nil
	}
	return there, err
}

func (e *entry) renew(ctx context.Context) error {
	// No output: a text that changed would be a write to Consul's servers.
	return e.host.Agent().UpdateTTLOpts(checkID(e.listed.ID), "", api.HealthPassing, (&api.QueryOptions{}).WithContext(ctx))
}

// superseded reports whether a service is somebody else's who started later.
func (e *entry) superseded(there *api.AgentService) bool {
	if there.Meta[ownerKey] == e.owner {
		return false
	}
	other, mine, err := e.place.instance(there)
	return err == nil && mine && registry.Supersedes(&other, &e.in)
}

// Check renews the check, and compares what the agent has with what Put has left.
func (e *entry) Check(ctx context.Context) error {
	there, err := e.look(ctx)
	switch {
	case err != nil:
		return err
	case there == nil:
		return errors.New("the agent no longer has the service")
	case e.superseded(there):
		return registry.ErrSuperseded
	case there.Service != e.listed.Name || !maps.Equal(there.Meta, e.listed.Meta) || !slices.Equal(there.Tags, e.listed.Tags):
		return errors.New("the agent has something else under the same ID")
	}
	return e.renew(ctx)
}

// Delete deregisters the service, unless it is somebody else's.
func (e *entry) Delete(ctx context.Context) error {
	if e.host == nil {
		return nil // the first Put was refused before it asked anybody
	}
	there, err := e.look(ctx)
	if err != nil || there == nil || there.Meta[ownerKey] != e.owner {
		return err
	}
	err = e.host.Agent().ServiceDeregisterOpts(e.listed.ID, (&api.QueryOptions{}).WithContext(ctx))
	if notFound(err) {
		return nil
	}
	return err
}
