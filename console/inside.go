package console

import (
	"context"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem/admin"
)

// kept keeps values for a short time, so that several pages cost the cluster no more than one.
type kept[V any] struct {
	mu  sync.Mutex
	all map[figureKey]keptValue[V]
}

type keptValue[V any] struct {
	at time.Time
	v  V
}

// get returns a value that is not older than so long.
func (k *kept[V]) get(key figureKey, age time.Duration) (v V, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e, ok := k.all[key]
	return e.v, ok && time.Since(e.at) < age
}

func (k *kept[V]) put(key figureKey, v V) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all == nil {
		k.all = map[figureKey]keptValue[V]{}
	}
	k.all[key] = keptValue[V]{time.Now(), v}
}

func (k *kept[V]) drop(key figureKey) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.all, key)
}

// forget drops values that are older than a minute.
func (k *kept[V]) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.all, func(_ figureKey, e keptValue[V]) bool { return time.Since(e.at) > time.Minute })
}

// inside is what a process says of its clients and of the limiters of its servers.
type inside struct {
	row     InstanceRow
	clients []admin.Client
	forces  []admin.Change // of breakers, the latest first; read only where one is forced
	limits  *admin.Limits
	err     error
}

// insides asks processes, at most lookAll of them. Their order is that of rows.
func (c *Console) insides(ctx context.Context, rows []InstanceRow) []*inside {
	ctx, cancel := context.WithTimeout(ctx, viewTime)
	defer cancel()
	out := make([]*inside, len(rows))
	var wg sync.WaitGroup
	for i := range rows {
		key := figureKey{rows[i].List, rows[i].ID}
		if in, ok := c.inner.get(key, figuresFor); ok {
			out[i] = in
			continue
		}
		wg.Go(func() {
			out[i] = c.askInside(ctx, &rows[i])
			c.inner.put(key, out[i])
		})
	}
	wg.Wait()
	return out
}

func (c *Console) askInside(ctx context.Context, row *InstanceRow) *inside {
	in := &inside{row: *row}
	clients, err := ask[admin.Clients](ctx, c.asker, &row.Instance, "Clients", admin.ClientsRequest{})
	if err != nil {
		in.err = err
		return in
	}
	in.clients = clients.Clients
	if in.limits, in.err = ask[admin.Limits](ctx, c.asker, &row.Instance, "Limits", admin.LimitsRequest{}); in.err != nil {
		return in
	}
	if in.hasForced() {
		changes, err := ask[admin.Changes](ctx, c.asker, &row.Instance, "Changes", admin.ChangesRequest{Max: 200})
		if err != nil {
			in.err = err
			return in
		}
		in.forces = changes.Changes
	}
	return in
}

func (in *inside) hasForced() bool {
	for i := range in.clients {
		for _, s := range instancesOf(&in.clients[i]) {
			if !s.Forced.IsZero() {
				return true
			}
		}
	}
	return false
}

// forceOf returns the change by which an operator has forced a breaker; nil if it is not known.
func (in *inside) forceOf(client, instance string) *admin.Change {
	what := "breaker of " + client + " for " + instance
	for i := range in.forces {
		if in.forces[i].What == what {
			return &in.forces[i]
		}
	}
	return nil
}

// processes returns the processes that may know calls of a list: its instances, and those that
// call them. For nil it returns all. A process in several lists is there once. without is how many have
// no admin API.
func (c *Console) processes(of *list) (all []InstanceRow, without int) {
	seen := map[string]bool{}
	add := func(r *InstanceRow) {
		if !answers(&r.Instance) {
			without++
			return
		}
		target, err := targetOf(&r.Instance)
		if err != nil {
			target = r.List + "\n" + r.ID // the error is said when it is asked
		}
		if !seen[target] {
			seen[target] = true
			all = append(all, *r)
		}
	}
	lists := c.lists()
	if of != nil {
		lists = []*list{of}
	}
	for _, l := range lists {
		rows := l.rows()
		for i := range rows {
			add(&rows[i])
		}
	}
	if of == nil {
		return all, without
	}
	for _, consumer := range c.consumers(of) {
		if _, row, err := c.instanceRow(consumer.List, consumer.Instance); err == nil {
			add(row)
		}
	}
	return all, without
}

// listsByTarget returns the lists by the part of their names that says which list it is, without
// options.
func (c *Console) listsByTarget() map[string]*list {
	by := map[string]*list{}
	for _, l := range c.lists() {
		by[bare(l.name)] = l
	}
	return by
}

// bare cuts the options off a target, and the number off the name of a second client.
func bare(name string) string {
	name, _, _ = strings.Cut(name, "?")
	name, _, _ = strings.Cut(name, "#")
	return name
}
