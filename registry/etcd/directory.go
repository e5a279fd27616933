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

// Lists returns the directories that hold an instance; see [registry.Directory].
func (r *Registry) Lists(ctx context.Context, target registry.Target) ([]registry.Target, error) {
	p, err := r.placeOf(target)
	if err != nil {
		return nil, err
	}
	c, release, err := r.conns.Acquire(p.servers)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	defer release()
	s := &session{conn: c, place: p, log: r.options.log}
	client, err := s.client(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	dirs := map[string]bool{}
	for from, end := p.prefix(), clientv3.GetPrefixRangeEnd(p.prefix()); from != ""; {
		resp, err := client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(directoryPage))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, c.explain(client, err))
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
