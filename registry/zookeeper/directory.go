package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/tandem-rpc/tandem/registry"
)

var _ registry.Directory = (*Registry)(nil)

// Limits of a search for lists.
const (
	maxSearched    = 100_000 // nodes that are read
	nodesAtATime   = 16
	ownDir         = "/zookeeper" // ZooKeeper's own
	maxSearchDepth = 32
)

// Lists returns the directories that hold an ephemeral node of an instance; see
// [registry.Directory]. The path may be /, for the whole tree. It reads every node below the
// path, and fails for more than 100,000; a node that may not be read is left out.
func (r *Registry) Lists(ctx context.Context, target registry.Target) ([]registry.Target, error) {
	base, at := target.Path, target
	if strings.Trim(base, "/") == "" {
		base, at.Path = "/", "/any"
	}
	p, err := r.place(at)
	if err != nil {
		return nil, err
	}
	l, release, err := r.links.Acquire(p.link)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	defer release()
	s := &search{registry: r, link: l, target: target, below: p.layout.below(), found: map[string]bool{}}
	level := []string{base}
	for range maxSearchDepth {
		if level, err = s.level(ctx, level); err != nil {
			return nil, fmt.Errorf("%s: the lists below %.100q: %w", name, base, err)
		}
		if len(level) == 0 {
			return s.lists(), nil
		}
	}
	return nil, fmt.Errorf("%s: the lists below %.100q: directories are nested more than %d deep", name, base, maxSearchDepth)
}

// search collects lists, level by level of the tree.
type search struct {
	registry *Registry
	link     *link
	target   registry.Target
	below    string // what the layout appends to the path of a list

	mu    sync.Mutex
	read  int             // nodes
	found map[string]bool // paths of lists
}

// level reads the nodes in directories, and returns the directories among them.
func (s *search) level(ctx context.Context, dirs []string) ([]string, error) {
	nodes, err := each(ctx, dirs, func(dir string) ([]string, error) {
		names, err := call(ctx, s.link, func(conn *zk.Conn) (names []string, err error) {
			names, _, err = conn.Children(dir)
			return names, err
		})
		if err != nil {
			return nil, leftOut(err)
		}
		at := make([]string, 0, len(names))
		for _, name := range names {
			if node := path.Join(dir, name); node != ownDir && node+"/" != registry.OverridesKey("/") {
				at = append(at, node)
			}
		}
		return at, s.count(len(at))
	})
	if err != nil {
		return nil, err
	}
	return each(ctx, nodes, func(at string) ([]string, error) {
		n, err := s.link.get(ctx, at)
		switch {
		case err != nil:
			return nil, leftOut(err)
		case n.stat.EphemeralOwner != 0: // has no nodes below it
			return nil, s.enter(at, n.data)
		case n.stat.NumChildren == 0:
			return nil, nil
		}
		return []string{at}, nil
	})
}

// leftOut returns nil for the error of a node that is left out: it is gone, or may not be read.
func leftOut(err error) error {
	if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNoAuth) {
		return nil
	}
	return err
}

// count counts nodes that are read, and fails if there are too many.
func (s *search) count(n int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.read += n; s.read > maxSearched {
		return fmt.Errorf("there are more than %d nodes", maxSearched)
	}
	return nil
}

// enter adds the list of a node, if the node is an instance.
func (s *search) enter(at string, data []byte) error {
	dir, name := path.Split(at)
	dir = strings.TrimSuffix(dir, "/")
	list, ok := strings.CutSuffix(dir, s.below)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !ok || s.found[list] {
		return nil
	}
	t := s.target
	t.Path = list
	p, err := s.registry.place(t)
	if err != nil {
		return nil // no target can name this directory
	}
	if _, err := p.layout.parse(name, data); err != nil {
		return nil // it is no instance
	}
	if s.found[list] = true; len(s.found) > registry.MaxLists {
		return fmt.Errorf("there are more than %d", registry.MaxLists)
	}
	return nil
}

// lists returns the lists that have been found, sorted by path.
func (s *search) lists() []registry.Target {
	lists := make([]registry.Target, 0, len(s.found))
	for list := range s.found {
		t := s.target
		t.Path = list
		lists = append(lists, t)
	}
	slices.SortFunc(lists, func(a, b registry.Target) int { return strings.Compare(a.Path, b.Path) })
	return lists
}

// each calls read for each path, several at a time, and returns what all of them return. After
// an error it calls read no more.
func each(ctx context.Context, paths []string, read func(string) ([]string, error)) ([]string, error) {
	var mu sync.Mutex
	var all []string
	var failed error
	var wg sync.WaitGroup
	next := make(chan string)
	for range min(nodesAtATime, len(paths)) {
		wg.Go(func() {
			for at := range next {
				found, err := read(at)
				mu.Lock()
				all = append(all, found...)
				if failed == nil {
					failed = err
				}
				mu.Unlock()
			}
		})
	}
	stop := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return failed != nil || ctx.Err() != nil
	}
	for _, at := range paths {
		if stop() {
			break
		}
		next <- at
	}
	close(next)
	wg.Wait()
	if failed == nil {
		failed = ctx.Err()
	}
	return all, failed
}
