package redis

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	goredis "github.com/redis/go-redis/v9"

	"github.com/tandem-rpc/tandem/registry"
)

var _ registry.Directory = (*Registry)(nil)

// Limits of a search for lists.
const (
	scanCount = 1000   // keys that the server looks at for one SCAN
	maxScans  = 20_000 // SCANs of one server: 20 million keys
)

// Lists returns the lists that have keys, which expire with the last instance; see
// [registry.Directory]. The path may be empty, for all lists of the database. It looks at every
// key of the database, on every master of a Cluster, by SCAN, which does not block the server.
func (r *Registry) Lists(ctx context.Context, target registry.Target) ([]registry.Target, error) {
	base := strings.Trim(target.Path, "/")
	at, err := r.directoryOf(target, base)
	if err != nil {
		return nil, err
	}
	conn, release, err := r.shared.Acquire(at.server())
	if err != nil {
		return nil, err
	}
	defer release()
	s := &search{base: base, found: map[string]bool{}}
	if cluster, ok := conn.client.(*goredis.ClusterClient); ok {
		err = cluster.ForEachMaster(ctx, func(ctx context.Context, node *goredis.Client) error { return s.run(ctx, node) })
	} else {
		err = s.run(ctx, conn.client)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: the lists below %.100q: %w", name, target.Path, err)
	}
	lists := make([]registry.Target, 0, len(s.found))
	for list := range s.found {
		t := target
		if t.Path = "/" + list; list == base {
			t.Path = target.Path
		}
		lists = append(lists, t)
	}
	slices.SortFunc(lists, func(a, b registry.Target) int { return strings.Compare(a.Path, b.Path) })
	return lists, nil
}

// directoryOf parses the target of a directory, which need not have a path.
func (r *Registry) directoryOf(target registry.Target, base string) (place, error) {
	if base == "" {
		target.Path = "/any"
	}
	return parse(target)
}

// search collects lists. Masters of a Cluster are searched at the same time.
type search struct {
	base string // "" for all

	mu    sync.Mutex
	found map[string]bool
}

// run searches the keys of one server.
func (s *search) run(ctx context.Context, server goredis.Cmdable) error {
	before, after, _ := strings.Cut(keys("\x00")[1], "\x00")
	pattern := before + globEscaper.Replace(s.base) + "*" + after
	var cursor uint64
	for range maxScans {
		// No TYPE: a proxy or a user's rights may not have it, and the names suffice.
		names, next, err := server.Scan(ctx, cursor, pattern, scanCount).Result()
		if err != nil {
			return err
		}
		for _, key := range names {
			s.add(strings.TrimSuffix(strings.TrimPrefix(key, before), after))
		}
		switch {
		case s.size() > registry.MaxLists:
			return fmt.Errorf("there are more than %d", registry.MaxLists)
		case next == 0:
			return nil
		}
		cursor = next
	}
	return fmt.Errorf("the database has more than %d keys", maxScans*scanCount)
}

// add adds a list if it is at the base or below.
func (s *search) add(list string) {
	at := strings.Trim(list, "/")
	below := s.base == "" || at == s.base || strings.HasPrefix(at, s.base+"/")
	if at == "" || at != list || !below || strings.ContainsAny(list, "{}") {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found[list] = true
}

func (s *search) size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.found)
}

// globEscaper escapes what has a meaning in a pattern of Redis.
var globEscaper = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`)
