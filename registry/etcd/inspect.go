package etcd

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tandem-rpc/tandem/registry"
)

var _ registry.Inspector = (*Registry)(nil)

// leaseLanes is how many leases are asked for at a time.
const leaseLanes = 16

// Inspect returns the keys of a list, with the time that their leases have left; see
// [registry.Inspector].
func (r *Registry) Inspect(ctx context.Context, target registry.Target) ([]registry.Held, error) {
	s, client, release, err := r.look(ctx, target)
	if err != nil {
		return nil, err
	}
	defer release()
	p := s.place
	resp, err := client.Get(ctx, p.prefix(), clientv3.WithPrefix(), clientv3.WithLimit(registry.MaxInstances))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, s.conn.explain(client, err))
	}
	var held []registry.Held
	leases := map[clientv3.LeaseID]*clientv3.LeaseTimeToLiveResponse{}
	of := map[string]clientv3.LeaseID{}
	for _, kv := range resp.Kvs {
		key := string(kv.GetKey())
		in, err := p.decode(key, kv.GetValue())
		if err != nil {
			continue // it is no instance
		}
		h := registry.Held{ID: in.ID, Key: key, Revision: uint64(max(0, kv.GetModRevision()))}
		if id := clientv3.LeaseID(kv.GetLease()); id != clientv3.NoLease {
			h.Lease = strconv.FormatInt(int64(id), 16)
			leases[id], of[key] = nil, id
		}
		held = append(held, h)
	}
	if err := askLeases(ctx, client, leases); err != nil {
		return nil, fmt.Errorf("%s: %w", name, s.conn.explain(client, err))
	}
	for i := range held {
		if l := leases[of[held[i].Key]]; l != nil && l.TTL > 0 { // else it has just ended
			held[i].TTL, held[i].Left = time.Duration(l.GrantedTTL)*time.Second, time.Duration(l.TTL)*time.Second
		}
	}
	slices.SortFunc(held, func(a, b registry.Held) int { return strings.Compare(a.ID, b.ID) })
	return held, nil
}

// askLeases fills in what the cluster says of leases.
func askLeases(ctx context.Context, client *clientv3.Client, leases map[clientv3.LeaseID]*clientv3.LeaseTimeToLiveResponse) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ids, wg, mu := make(chan clientv3.LeaseID), sync.WaitGroup{}, sync.Mutex{}
	all := make([]clientv3.LeaseID, 0, len(leases))
	for id := range leases {
		all = append(all, id)
	}
	for range min(leaseLanes, len(all)) {
		wg.Go(func() {
			for id := range ids {
				resp, err := client.TimeToLive(ctx, id)
				if err != nil {
					cancel(err)
					continue
				}
				mu.Lock()
				leases[id] = resp
				mu.Unlock()
			}
		})
	}
	for _, id := range all {
		ids <- id
	}
	close(ids)
	wg.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}
