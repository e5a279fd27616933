package consul

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/consul/api"

	"github.com/tandem-rpc/tandem/registry"
)

var _ registry.Directory = (*Registry)(nil)

// directoryQueries is how many services are read at a time.
const directoryQueries = 8

// Lists returns the lists with an instance whose checks pass; see [registry.Directory]. The path
// may be empty, for all lists. Consul's catalogue has only the last element of each path, so Lists
// reads every service that its token may see, up to 10,000 of them.
func (r *Registry) Lists(ctx context.Context, target registry.Target) ([]registry.Target, error) {
	base := strings.TrimSuffix(target.Path, "/")
	at := target
	if base == "" {
		at.Path = "/any"
	}
	p, err := r.place(at)
	if err != nil {
		return nil, err
	}
	agents, release, err := r.shared.Acquire(p.hosts)
	if err != nil {
		return nil, err
	}
	defer release()
	paths, err := agents.paths(ctx, base)
	if err != nil {
		return nil, fmt.Errorf("%s: the lists below %.100q: %w", name, target.Path, err)
	}
	lists := make([]registry.Target, len(paths))
	for i, path := range paths {
		lists[i] = target
		lists[i].Path = path
	}
	return lists, nil
}

// paths returns the paths of the lists at a base and below it, sorted.
func (a *agents) paths(ctx context.Context, base string) ([]string, error) {
	host, n := a.host()
	names, err := a.services(ctx, host)
	if err != nil {
		a.failed(n, err)
		return nil, err
	}
	if len(names) > registry.MaxLists {
		return nil, fmt.Errorf("the catalogue has %d services, limit %d", len(names), registry.MaxLists)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	found := map[string]bool{}
	var wg sync.WaitGroup
	next := make(chan string)
	for range directoryQueries {
		wg.Go(func() {
			for service := range next {
				entries, _, err := a.list(ctx, host, service, 0)
				if err != nil {
					a.failed(n, err)
					cancel(fmt.Errorf("service %q: %w", service, err))
					continue
				}
				mu.Lock()
				collectPaths(found, service, entries)
				mu.Unlock()
			}
		})
	}
	for _, service := range names {
		if ctx.Err() != nil {
			break
		}
		next <- service
	}
	close(next)
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	var paths []string
	for path := range found {
		if base == "" || path == base || strings.HasPrefix(path, base+"/") {
			paths = append(paths, path)
		}
	}
	if len(paths) > registry.MaxLists {
		return nil, fmt.Errorf("there are more than %d", registry.MaxLists)
	}
	slices.Sort(paths)
	return paths, nil
}

// services returns the names of all services.
func (a *agents) services(ctx context.Context, host *api.Client) ([]string, error) {
	var services map[string][]string
	meta, err := a.query(ctx, 0, func(q *api.QueryOptions) (meta *api.QueryMeta, err error) {
		services, meta, err = host.Catalog().Services(q)
		return meta, err
	})
	switch {
	case err != nil:
		return nil, err
	case len(services) == 0 && a.anonymous && meta.DefaultACLPolicy == "deny":
		return nil, errAnonymous
	case len(services) == 0 && meta.ResultsFilteredByACLs:
		return nil, errors.New("the token may see no service: give it service:read and node:read")
	}
	names := make([]string, 0, len(services))
	for service := range services {
		names = append(names, service)
	}
	return names, nil
}

// collectPaths adds the paths of the instances among the entries of a service.
func collectPaths(found map[string]bool, service string, entries []*api.ServiceEntry) {
	for _, e := range entries {
		if e == nil || e.Service == nil {
			continue
		}
		path := e.Service.Meta[pathKey]
		if found[path] || checkPath(path) != nil || path[0] != '/' {
			continue
		}
		p := place{path: path, service: path[strings.LastIndexByte(path, '/')+1:]}
		if _, mine, err := p.instance(e.Service); mine && err == nil && p.serviceName() == service {
			found[path] = true
		}
	}
}
