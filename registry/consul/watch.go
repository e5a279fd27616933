package consul

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry/adapter"
)

// pace is the least time between two queries of one watch, for lists that change all
// the time. It is as long as the least time between two deliveries.
const pace = 200 * time.Millisecond

// Failures for a list that ACLs have shortened, or may have shortened: Consul reports
// filtered results only for requests with a token.
var (
	errFiltered  = errors.New("the token may not see the whole list: give it service:read for the service and node:read for its nodes")
	errAnonymous = errors.New("the list is empty: perhaps because there is no token and the agent's default policy is deny: use WithToken")
)

// watch follows one list.
type watch struct {
	place  place
	agents *agents
}

// session is the Session of an [adapter.Follower].
func (w watch) session(ctx context.Context, m *adapter.Mirror) error {
	host, n := w.agents.host()
	index, last := uint64(0), uint64(0) // last is the index of the list in m
	for {
		began := time.Now()
		entries, meta, err := w.agents.list(ctx, host, w.place.serviceName(), index)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			w.agents.failed(n, err)
			return err
		case meta.ResultsFilteredByACLs:
			return errFiltered
		case len(entries) == 0 && w.agents.anonymous && meta.DefaultACLPolicy == "deny":
			return errAnonymous
		}
		next := nextIndex(index, meta.LastIndex)
		if index == 0 || next > 0 && meta.LastIndex != last {
			m.Replace(w.place.instances(m, entries))
		}
		index, last = next, meta.LastIndex
		rest(ctx, pace-time.Since(began))
	}
}

// nextIndex returns the index for the next query, by the rules of Consul's documentation
// of blocking queries: at least 1, since a query with 0 does not block. When the index
// has gone backwards it returns 0: the agent's servers may have been restarted, so the
// response is not used, and the next query starts again.
func nextIndex(asked, answered uint64) uint64 {
	if answered < asked {
		return 0
	}
	return max(1, answered)
}

// rest waits for d or until ctx ends.
func rest(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// instances returns the valid instances of Consul's response, by node and service ID.
// Of instances with the same ID, registered through several agents, it returns the one
// that started last, or of those the one registered last.
func (p place) instances(m *adapter.Mirror, entries []*api.ServiceEntry) map[string]tandem.Instance {
	list := make(map[string]tandem.Instance, len(entries))
	seen := make(map[string]string, len(entries)) // instance ID to key
	from := make(map[string]uint64, len(entries)) // key to Consul's index of the registration
	for _, e := range entries {
		if e == nil || e.Node == nil || e.Service == nil {
			continue
		}
		key := e.Node.Node + "/" + e.Service.ID
		in, mine, err := p.instance(e.Service)
		if err != nil {
			m.Refuse(key, err)
			continue
		}
		if !mine {
			continue
		}
		from[key] = e.Service.CreateIndex
		if other, twice := seen[in.ID]; twice {
			if before := list[other]; before.Started.After(in.Started) || before.Started.Equal(in.Started) && from[other] > from[key] {
				continue
			}
			delete(list, other)
		}
		seen[in.ID], list[key] = key, in
	}
	return list
}
