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
	"github.com/tandem-rpc/tandem/registry/adapter"
)

// entry is an [adapter.Entry]: one service of an agent. Its methods are called one
// at a time.
type entry struct {
	agents *agents
	place  place
	owner  string // distinguishes our service from others under the same ID

	in     tandem.Instance               // the instance of the last Put
	listed *api.AgentServiceRegistration // the registration of that instance
	host   *api.Client                   // the agent of the last Put; nil before the first
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
		if err = e.putWithin(ctx, left); err == nil || !nextMaySucceed(err) {
			return err
		}
		e.agents.failed(n, err)
	}
	return err
}

// putWithin is put with a deadline: an equal share of the time that is left for the
// given number of agents.
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
	// A check that existed before keeps its state, which may be critical. A new check
	// passes, but the agent writes its state to disk only when it is renewed: an agent
	// that is killed before that would restart with the check critical.
	return e.renew(ctx)
}

// look returns the service that the agent has under our ID, or nil for none.
func (e *entry) look(ctx context.Context) (*api.AgentService, error) {
	there, _, err := e.host.Agent().Service(e.listed.ID, (&api.QueryOptions{}).WithContext(ctx))
	if notFound(err) {
		return nil, nil
	}
	return there, err
}

func (e *entry) renew(ctx context.Context) error {
	// No output, because a text that changes causes a write to Consul's servers.
	return e.host.Agent().UpdateTTLOpts(checkID(e.listed.ID), "", api.HealthPassing, (&api.QueryOptions{}).WithContext(ctx))
}

// superseded reports whether the service is of another registration whose instance
// started later.
func (e *entry) superseded(there *api.AgentService) bool {
	if there.Meta[ownerKey] == e.owner {
		return false
	}
	other, mine, err := e.place.instance(there)
	return err == nil && mine && adapter.Supersedes(&other, &e.in)
}

// Check compares the agent's service with the one of the last Put, and renews its check.
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

// Delete deregisters the service, unless it is of another registration.
func (e *entry) Delete(ctx context.Context) error {
	if e.host == nil {
		return nil // the first Put has failed before its first request
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
