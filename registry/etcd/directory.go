package etcd

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tandem-rpc/tandem/registry"
)

var _ registry.Directory = (*Registry)(nil)

// directoryPage is how many keys are read at a time.
const directoryPage = 1000

// look returns a session with the servers of a target, its client, and what ends it.
func (r *Registry) look(ctx context.Context, target registry.Target) (s *session, client *clientv3.Client, release func(), err error) {
	p, err := r.placeOf(target)
	if err != nil {
		return nil, nil, nil, err
	}
	c, release, err := r.conns.Acquire(p.servers)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	s = &session{conn: c, place: p, log: r.options.log}
	if client, err = s.client(ctx); err != nil {
		release()
		return nil, nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	return s, client, release, nil
}

// Lists returns the directories that hold an instance; see [registry.Directory].
func (r *Registry) Lists(ctx context.Context, target registry.Target) ([]registry.Target, error) {
	s, client, release, err := r.look(ctx, target)
	if err != nil {
		return nil, err
	}
	defer release()
	p := s.place
	dirs := map[string]bool{}
	for from, end := p.prefix(), clientv3.GetPrefixRangeEnd(p.prefix()); from != ""; {
		resp, err := client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(directoryPage))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, s.conn.explain(client, err))
		}
		from = ""
		for _, kv := range resp.Kvs {
			p.enter(dirs, string(kv.GetKey()), kv.GetValue())
			if resp.More {
				from = string(kv.GetKey()) + "\x00"
			}
		}
		if len(dirs) > registry.MaxLists {
			return nil, fmt.Errorf("%s: there are more than %d lists below %s", name, registry.MaxLists, p.dir)
		}
	}
	lists := make([]registry.Target, 0, len(dirs))
	for dir := range dirs {
		t := target
		t.Path = dir
		lists = append(lists, t)
	}
	slices.SortFunc(lists, func(a, b registry.Target) int { return strings.Compare(a.Path, b.Path) })
	return lists, nil
}

// enter adds the directory of a key, if the key is that of an instance.
func (p *place) enter(dirs map[string]bool, key string, value []byte) {
	dir := path.Dir(key)
	if dirs[dir] || strings.HasPrefix(key, registry.OverridesKey("/")) {
		return
	}
	if _, err := p.layout.decode(strings.TrimPrefix(key, dir+"/"), value); err == nil {
		dirs[dir] = true
	}
}
