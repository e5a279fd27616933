package nacos

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tandem-rpc/tandem/registry"
)

var (
	_ registry.Directory = (*resolver)(nil)
	_ registry.Directory = (*Registry)(nil)
)

const (
	servicePath      = "/v1/ns/service"
	directoryPage    = 500 // services that are read at a time
	directoryQueries = 4   // lists that are read at a time
)

// Lists returns the services that list an instance of tandem; see [registry.Directory]. Below
// /group are the services of that group. An empty path is the DEFAULT_GROUP, as Nacos's open API
// names no groups; then the lists are /Service. It reads the list of every service of the group.
func (r *resolver) Lists(ctx context.Context, target registry.Target) ([]registry.Target, error) {
	group, at := strings.Trim(target.Path, "/"), target
	if group == "" {
		at.Path = "/any"
	}
	p, err := r.parse(at)
	if err != nil {
		return nil, err
	}
	s, release, err := r.shared.Acquire(p.servers)
	if err != nil {
		return nil, err
	}
	defer release()
	var paths []string // to look at
	if group != "" {
		paths = append(paths, target.Path)
	}
	if !strings.Contains(group, "/") {
		p.group = group
		services, err := s.services(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("%s: the services of the group %q: %w", name, group, err)
		}
		for _, service := range services {
			paths = append(paths, strings.TrimSuffix("/"+group, "/")+"/"+service)
		}
	}
	return r.listed(ctx, s, target, paths)
}

// services returns the names of the services of a group, sorted.
func (s *servers) services(ctx context.Context, p place) ([]string, error) {
	var names []string
	for page := 1; ; page++ {
		q := p.query()
		q.Del("serviceName")
		q.Set("pageNo", strconv.Itoa(page))
		q.Set("pageSize", strconv.Itoa(directoryPage))
		some, err := s.servicePage(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, name := range some {
			if _, plain, grouped := strings.Cut(name, "@@"); grouped {
				name = plain
			}
			names = append(names, name)
		}
		switch {
		case len(names) > registry.MaxLists:
			return nil, fmt.Errorf("there are more than %d", registry.MaxLists)
		case len(some) < directoryPage:
			slices.Sort(names)
			return slices.Compact(names), nil
		}
	}
}

// servicePage returns the names of one page.
func (s *servers) servicePage(ctx context.Context, q url.Values) ([]string, error) {
	body, err := s.call(ctx, http.MethodGet, servicePath+"/list", q)
	if err != nil {
		return nil, err
	}
	var page struct {
		Names []string `json:"doms"`
	}
	if err := json.Unmarshal(body, &page); err != nil {
		return nil, fmt.Errorf("the services are no JSON: %w", err)
	}
	return page.Names, nil
}

// listed returns the targets of those paths that list an instance.
func (r *resolver) listed(ctx context.Context, s *servers, target registry.Target, paths []string) ([]registry.Target, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	lists := make([]*registry.Target, len(paths))
	var wg sync.WaitGroup
	tokens := make(chan struct{}, directoryQueries)
	for i, path := range paths {
		if ctx.Err() != nil {
			break
		}
		t := target
		t.Path = path
		p, err := r.parse(t)
		if err != nil {
			continue // a name that no target has: a service of another framework
		}
		tokens <- struct{}{}
		wg.Go(func() {
			defer func() { <-tokens }()
			some, err := watch{servers: s, place: p}.some(ctx)
			if err != nil {
				cancel(fmt.Errorf("%s: the list %s: %w", name, path, err)) // the others need not be read
			}
			if some {
				lists[i] = &t
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	var found []registry.Target
	for _, t := range lists {
		if t != nil {
			found = append(found, *t)
		}
	}
	return found, nil
}

// some reports whether the list has an instance.
func (w watch) some(ctx context.Context) (bool, error) {
	hosts, err := w.ask(ctx)
	if err != nil {
		return false, err
	}
	list, err := split(hosts)
	return len(collectHosts(list, func(string, error) {})) > 0, err
}
