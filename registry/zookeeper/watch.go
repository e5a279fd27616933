package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/adapter"
)

const (
	// readers is how many nodes of a list are read at the same time.
	readers = 32
	// gather is how long changes are collected before they are read, so that the list is
	// not read for each of many instances that come or go together.
	gather = 50 * time.Millisecond
	// watchWait is how long a watch waits for the session before it reports that there
	// is none.
	watchWait = 2 * time.Second
	// maxNodes bounds how many nodes of a directory are read.
	maxNodes = 2 * registry.MaxInstances
)

// lister reads a directory whenever it changes. It keeps what it has read from one session
// of its Follower to the next.
type lister struct {
	link  *link
	place place
	known map[string]*item // nodes by name
}

// item is a node as it was read last.
type item struct {
	modified int64 // the transaction that wrote it; 0: it is to be read again
	in       tandem.Instance
	flaw     error // why it is not an instance
}

func newLister(l *link, p place) *lister {
	return &lister{link: l, place: p, known: make(map[string]*item)}
}

// session is a session of an adapter.Follower. It ends when the connection is lost: what
// has changed meanwhile must be read.
func (w *lister) session(ctx context.Context, m *adapter.Mirror) error {
	lost, err := w.link.soon(ctx)
	if err != nil {
		return err
	}
	rcv := w.link.listen(w.place.dir)
	defer w.link.unlisten(w.place.dir, rcv)
	if err := w.readAll(ctx, m); err != nil {
		return err
	}
	for {
		select {
		case <-rcv.news:
		case <-lost:
			return w.link.unreachable(errors.New("the connection was lost"))
		case <-ctx.Done():
			return ctx.Err()
		}
		w.link.rest(gather)
		list, nodes := w.link.takeChanges(rcv)
		if err := w.readSome(ctx, m, list, nodes); err != nil {
			return err
		}
	}
}

// soon waits for the session, at most for watchWait: without one, a watcher should soon
// begin with a list that was read earlier. The channel lost is closed when the connection
// is lost.
func (l *link) soon(ctx context.Context) (lost <-chan struct{}, err error) {
	ctx, cancel := context.WithTimeout(ctx, watchWait)
	defer cancel()
	_, lost, err = l.await(ctx)
	return lost, err
}

// readAll reads the whole list. Of a known node whose watch is still set, it reads the data
// only if the node has changed.
func (w *lister) readAll(ctx context.Context, m *adapter.Mirror) error {
	names, err := w.names(ctx, m)
	if err != nil {
		return err
	}
	items, err := w.read(ctx, names)
	if err != nil {
		return err
	}
	w.known = items
	entries := make(map[string]tandem.Instance, len(items))
	for name, it := range items {
		if it.flaw == nil {
			entries[name] = it.in
		} else {
			m.Refuse(name, it.flaw)
		}
	}
	m.Replace(entries)
	return nil
}

// readSome reads what has changed: the names of the nodes if list is set, and the nodes
// that are new or in changed.
func (w *lister) readSome(ctx context.Context, m *adapter.Mirror, list bool, changed map[string]bool) error {
	var fresh []string
	if list {
		names, err := w.names(ctx, m)
		if err != nil {
			return err
		}
		fresh = w.compare(m, names)
	}
	for name := range changed {
		if it := w.known[name]; it != nil {
			it.modified = 0 // so that it is read
			fresh = append(fresh, name)
		}
	}
	items, err := w.read(ctx, fresh)
	if err != nil {
		return err
	}
	for _, name := range fresh {
		w.apply(m, name, items[name])
	}
	return nil
}

// apply stores what was read of a node, nil if it is gone, and passes it to m.
func (w *lister) apply(m *adapter.Mirror, name string, it *item) {
	if it == nil {
		w.drop(m, name)
		return
	}
	before := w.known[name]
	w.known[name] = it
	switch {
	case it.flaw == nil:
		m.Set(name, it.in)
		return
	case before != nil && before.flaw == nil:
		m.Delete(name)
	}
	m.Refuse(name, it.flaw)
}

// compare drops the nodes that are no longer among the names and returns those that
// are new.
func (w *lister) compare(m *adapter.Mirror, names []string) (fresh []string) {
	there := make(map[string]bool, len(names))
	for _, name := range names {
		there[name] = true
		if w.known[name] == nil {
			fresh = append(fresh, name)
		}
	}
	for name := range w.known {
		if !there[name] {
			w.drop(m, name)
		}
	}
	return fresh
}

func (w *lister) drop(m *adapter.Mirror, name string) {
	delete(w.known, name)
	m.Delete(name)
}

// names returns the names of the directory's nodes, up to the limit.
func (w *lister) names(ctx context.Context, m *adapter.Mirror) ([]string, error) {
	names, err := w.link.children(ctx, w.place.dir)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", w.place.dir, err)
	}
	if len(names) > maxNodes {
		slices.Sort(names)
		m.Refuse(names[maxNodes], fmt.Errorf("%s has %d nodes; those from here on are not read", w.place.dir, len(names)))
		names = names[:maxNodes]
	}
	return names, nil
}

// read reads nodes, at most readers at the same time. The result lacks nodes that are gone.
func (w *lister) read(ctx context.Context, names []string) (map[string]*item, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan string, len(names))
	for _, name := range names {
		next <- name
	}
	close(next)
	items := make(map[string]*item, len(names))
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range min(readers, len(names)) {
		wg.Go(func() {
			for name := range next {
				it, err := w.readOne(ctx, name)
				if err != nil {
					cancel(err)
					return
				}
				if it != nil {
					mu.Lock()
					items[name] = it
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return items, context.Cause(ctx)
}

// readOne reads a node unless it is unchanged. It returns nil if the node is gone.
func (w *lister) readOne(ctx context.Context, name string) (*item, error) {
	if w.place.layout.named() {
		return w.parse(name, node{stat: &zk.Stat{}}), nil
	}
	path := w.place.dir + "/" + name
	if it := w.known[name]; it != nil && it.modified != 0 && w.link.isSet(path) {
		modified, err := w.link.modified(ctx, path)
		if err != nil || modified == it.modified {
			return it, err
		}
	}
	n, err := w.link.getW(ctx, path)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil, nil
	case errors.Is(err, zk.ErrNoAuth):
		return &item{flaw: err}, nil
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return w.parse(name, n), nil
}

func (w *lister) parse(name string, n node) *item {
	in, err := w.place.layout.parse(name, n.data)
	return &item{modified: n.stat.Mzxid, in: in, flaw: err}
}
