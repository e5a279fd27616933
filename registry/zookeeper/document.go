package zookeeper

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/adapter"
)

var (
	_ registry.Documents      = (*Registry)(nil)
	_ registry.DocumentWriter = (*Registry)(nil)
	_ registry.DocumentFinder = (*Registry)(nil)
	_ registry.DocumentWriter = documents{}
)

// documents are the documents of the ensemble that a target names. They share the links of
// the registry.
type documents struct {
	registry *Registry
	target   registry.Target // zero for a Resolver's own, which has none
}

// DocumentsOf returns the documents of the ensemble that the target names, or of the
// registry's own for the zero target. The key of the document of the directory /shop/Cart
// is /tandem-overrides/shop/Cart; with layout=dubbo the directory ends in /providers. A
// report that a Resolver puts is deleted with the Resolver's session, which lasts as long
// as it watches a list or a document of the same servers. See [registry.DocumentFinder].
func (r *Registry) DocumentsOf(target registry.Target) (d registry.Documents, key string, err error) {
	if target.Address() == "" {
		target = r.target
	}
	p, err := r.place(target)
	if err != nil {
		return nil, "", err
	}
	return documents{r, target}, registry.OverridesKey(p.dir), nil
}

// WatchDocument delivers the data of a node and its changes. The key is the node's whole
// path, and does not depend on the registry's own directory. The node should not be a
// child of a directory that lists instances. See [registry.Documents].
func (d documents) WatchDocument(ctx context.Context, key string, update func(text []byte, err error)) error {
	l, _, release, err := d.connect(key)
	if err != nil {
		return err
	}
	defer release()
	return adapter.DocumentFollower{Name: name, Session: func(ctx context.Context, deliver func([]byte)) error {
		return l.document(ctx, key, deliver)
	}}.Follow(ctx, update)
}

// connect returns the link to use, the place, and the function that releases the link. It
// fails if key can't name a document.
func (d documents) connect(key string) (l *link, p place, release func(), err error) {
	if p, err = d.place(key); err != nil {
		return nil, p, nil, err
	}
	if l, release, err = d.registry.links.Acquire(p.link); err != nil {
		return nil, p, nil, fmt.Errorf("%s: %w", name, err)
	}
	return l, p, release, nil
}

// place returns the place of the documents. It fails if key can't name a document.
func (d documents) place(key string) (place, error) {
	if d.target.Address() == "" {
		return place{}, errors.New(name + ": a resolver has no documents of its own; use New, or DocumentsOf")
	}
	if err := checkPath(key); err != nil || key[0] != '/' {
		return place{}, fmt.Errorf("%s: key %.100q: want a path such as /shop/policies/Cart", name, key)
	}
	return d.registry.place(d.target)
}

// document reads a node and follows its changes, until the connection is lost.
func (l *link) document(ctx context.Context, at string, deliver func([]byte)) error {
	lost, err := l.soon(ctx)
	if err != nil {
		return err
	}
	rcv := l.listen(at)
	defer l.unlisten(at, rcv)
	for {
		text, err := l.text(ctx, at)
		if err != nil {
			return fmt.Errorf("reading %s: %w", at, err)
		}
		deliver(text)
		select {
		case <-rcv.news:
			l.takeChanges(rcv)
		case <-lost:
			return l.unreachable(errors.New("the connection was lost"))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// text reads a node and watches it. If there is none, text watches for its creation.
func (l *link) text(ctx context.Context, at string) ([]byte, error) {
	for range attempts {
		n, err := l.getW(ctx, at)
		if !errors.Is(err, zk.ErrNoNode) {
			return n.data, err
		}
		there, err := l.existsW(ctx, at)
		if err != nil || !there {
			return nil, err
		}
	}
	return nil, errors.New("it is created and deleted again and again")
}

// ReadDocument reads the data of a node, from a server that has caught up with the leader.
// See [registry.DocumentWriter].
func (d documents) ReadDocument(ctx context.Context, key string) ([]byte, error) {
	l, _, release, err := d.connect(key)
	if err != nil {
		return nil, err
	}
	defer release()
	n, err := l.current(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("%s: reading %s: %w", name, key, err)
	}
	return n.data, nil
}

// current reads the node of a document after a sync, so that it is not older than what any
// server has confirmed. The node has no data if the document is empty, and no stat if there
// is no node.
func (l *link) current(ctx context.Context, at string) (node, error) {
	n, err := call(ctx, l, func(conn *zk.Conn) (n node, err error) {
		if _, err = conn.Sync(at); err == nil {
			n.data, n.stat, err = conn.Get(at)
		}
		return n, err
	})
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return node{}, nil
	case err == nil:
		err = adapter.CheckDocument(n.data)
	}
	if err != nil {
		return node{}, err
	}
	if len(n.data) == 0 {
		n.data = nil
	}
	return n, nil
}

// SwapDocument writes the data of a node if the node still has the version that it has read,
// and creates the node if there is none. An empty text leaves a node without data, because
// there may be reports below it. ZooKeeper counts the versions of a node that was deleted
// and created anew from 0 again: a program that does so with exactly as many writes between
// the read and the write, within milliseconds, is not noticed; tandem deletes no document's
// node. See [registry.DocumentWriter].
func (d documents) SwapDocument(ctx context.Context, key string, old, text []byte) error {
	if err := adapter.CheckDocument(text); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	l, p, release, err := d.connect(key)
	if err != nil {
		return err
	}
	defer release()
	if err := l.swap(ctx, key, old, text, p.acl); err != nil {
		return fmt.Errorf("%s: writing %s: %w", name, key, err)
	}
	return nil
}

// swap replaces the data of a node. It tries again when the node was written or created
// since it was read, because that may have left the same data: a reporter creates the
// document's node, for example.
func (l *link) swap(ctx context.Context, at string, old, text []byte, acl []zk.ACL) error {
	for range attempts {
		n, err := l.current(ctx, at)
		switch {
		case err != nil:
			return err
		case !bytes.Equal(n.data, old):
			return registry.ErrChanged
		case n.stat != nil:
			err = l.set(ctx, at, text, n.stat.Version)
		case len(text) > 0:
			if err = l.makeDir(ctx, path.Dir(at), acl); err == nil {
				err = l.make(ctx, at, text, zk.FlagPersistent, acl)
			}
		}
		if !errors.Is(err, zk.ErrBadVersion) && !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
	}
	return registry.ErrChanged
}

// reportDir returns the directory of the reports on a document.
func reportDir(key string) string { return key + "/applied" }

// PutReport makes an ephemeral node below the document's, in the directory applied. The
// node is deleted when the registry is closed or its session ends, whatever life is. See
// [registry.Documents].
func (d documents) PutReport(ctx context.Context, key, reporter string, report []byte, life time.Duration) error {
	if err := adapter.CheckReport(reporter, report, life); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	p, err := d.place(key)
	if err != nil {
		return err
	}
	l, release, kept, err := d.reporting(p)
	if err != nil {
		return err
	}
	defer release()
	at := reportDir(key) + "/" + escape(reporter)
	if err := l.putReport(ctx, at, report, p.acl); err != nil {
		return fmt.Errorf("%s: reporting beside %s: %w", name, key, err)
	}
	if !kept {
		return nil
	}
	return d.registry.keep(leaf{l, at})
}

// reporting returns the link whose session owns the reports, and whether it is kept until
// the registry is closed: only the link of a registry's own servers is. Others, and all of
// a Resolver, which is not closed, are kept by their watches.
func (d documents) reporting(p place) (l *link, release func(), kept bool, err error) {
	r := d.registry
	if r.target.Address() != "" {
		own, err := r.place(r.target)
		if err != nil {
			return nil, nil, false, err
		}
		if own.link == p.link {
			l, err = r.connect(p)
			return l, func() {}, true, err
		}
	}
	if l, release, err = r.links.Acquire(p.link); err != nil {
		return nil, nil, false, fmt.Errorf("%s: %w", name, err)
	}
	return l, release, false, nil
}

// reportPatience bounds the deletion of a report.
const reportPatience = 3 * time.Second

// leaf is the node of a report.
type leaf struct {
	link *link
	path string
}

// Close deletes the node.
func (n leaf) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), reportPatience)
	defer cancel()
	if err := n.link.deleteOwn(ctx, n.path); err != nil {
		return fmt.Errorf("%s: deleting %s: %w; it is deleted when its session ends", name, n.path, err)
	}
	return nil
}

func (l *link) putReport(ctx context.Context, at string, report []byte, acl []zk.ACL) error {
	n, err := l.get(ctx, at)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		if err := l.room(ctx, path.Dir(at)); err != nil {
			return err
		}
		return l.create(ctx, at, report, acl)
	case err != nil:
		return err
	case n.stat.EphemeralOwner == l.sessionID():
		return l.set(ctx, at, report, n.stat.Version)
	}
	return l.replace(ctx, at, n.stat.Version, &zk.CreateRequest{Path: at, Data: report, Acl: acl, Flags: zk.FlagEphemeral})
}

// room returns registry.ErrReports if a directory already has registry.MaxReports reports.
func (l *link) room(ctx context.Context, dir string) error {
	n, err := l.get(ctx, dir)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil
	case err == nil && n.stat.NumChildren >= registry.MaxReports:
		return registry.ErrReports
	}
	return err
}

// Reports reads the nodes of the reports. See [registry.Documents].
func (d documents) Reports(ctx context.Context, key string) (map[string][]byte, error) {
	l, _, release, err := d.connect(key)
	if err != nil {
		return nil, err
	}
	defer release()
	names, err := call(ctx, l, func(conn *zk.Conn) ([]string, error) {
		names, _, err := conn.Children(reportDir(key))
		return names, err
	})
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, fmt.Errorf("%s: reading the reports beside %s: %w", name, key, err)
	}
	reports := make(map[string][]byte, len(names))
	for _, child := range names[:min(len(names), registry.MaxReports)] {
		n, err := l.get(ctx, reportDir(key)+"/"+child)
		reporter, bad := url.PathUnescape(child)
		switch {
		case errors.Is(err, zk.ErrNoNode) || bad != nil: // deleted since, or not a report's name
		case err != nil:
			return nil, fmt.Errorf("%s: reading the report %s beside %s: %w", name, child, key, err)
		default:
			reports[reporter] = n.data
		}
	}
	return reports, nil
}
