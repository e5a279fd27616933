package kubernetes

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tandem-rpc/tandem/registry"
)

// Lists returns the ports of the Services of a namespace that have endpoints; see
// [registry.Directory]. The target is kubernetes://namespace, or that with /service or
// /service:port, whose lists alone are then returned.
func (r *resolver) Lists(ctx context.Context, target registry.Target) ([]registry.Target, error) {
	at := target
	if at.Path == "" || at.Path == "/" {
		at.Path = "/any:any"
	} else if !hasPort(at.Path) {
		at.Path += ":any"
	}
	p, err := parse(at)
	if err != nil {
		return nil, err
	}
	s, release, err := r.shared.Acquire("")
	if err != nil {
		return nil, err
	}
	defer release()
	q := url.Values{}
	if at.Path != "/any:any" {
		_, q = p.query()
	}
	all, _, err := s.list(ctx, fmt.Sprintf(slicesPath, p.namespace), q)
	if err != nil {
		return nil, fmt.Errorf("%s: the EndpointSlices of the namespace %s: %w", name, p.namespace, err)
	}
	return listsOf(target, all)
}

func hasPort(path string) bool { return strings.Contains(path, ":") }

// listsOf returns a target for each port of each Service. A port without a name is named by its
// number.
func listsOf(target registry.Target, all map[string]*endpointSlice) ([]registry.Target, error) {
	paths := map[string]bool{}
	for _, s := range all {
		service := s.Metadata.Labels[serviceLabel]
		if !label.MatchString(service) || len(s.Endpoints) == 0 {
			continue
		}
		for _, p := range s.Ports {
			switch {
			case p.Name != "":
				paths["/"+service+":"+p.Name] = true
			case p.Port != nil:
				paths["/"+service+":"+strconv.Itoa(int(*p.Port))] = true
			}
		}
	}
	if len(paths) > registry.MaxLists {
		return nil, fmt.Errorf("%s: there are more than %d lists", name, registry.MaxLists)
	}
	var lists []registry.Target
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		if hasPort(target.Path) && target.Path != path {
			continue
		}
		t := target
		t.Path = path
		lists = append(lists, t)
	}
	return lists, nil
}
