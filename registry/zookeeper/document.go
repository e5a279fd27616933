package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/tandem-rpc/tandem/registry"
)

var (
	_ registry.Documents      = (*Registry)(nil)
	_ registry.DocumentWriter = (*Registry)(nil)
)

// WatchDocument delivers the data of a node and its changes. The key is the node's whole
// path, and does not depend on the registry's own directory. The node should not be a
// child of a directory that lists instances. See [registry.Documents].
func (r *Registry) WatchDocument(ctx context.Context, key string, update func(text []byte, err error)) error {
	p, err := r.documents(key)
	if err != nil {
		return err
	}
	l, release, err := r.links.Acquire(p.link)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer release()
	return registry.DocumentFollower{Name: name, Session: func(ctx context.Context, deliver func([]byte)) error {
		return l.document(ctx, key, deliver)
	}}.Follow(ctx, update)
}

// documents returns the registry's place. It fails if key can't name a document.
func (r *Registry) documents(key string) (place, error) {
	if r.target.Address() == "" {
		return place{}, errors.New(name + ": a resolver has no documents; use New")
	}
	if err := checkPath(key); err != nil || key[0] != '/' {
		return place{}, fmt.Errorf("%s: key %.100q: want a path such as /shop/policies/Cart", name, key)
	}
	return r.place(r.target)
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

// WriteDocument writes the data of a node, which it creates if there is none. An empty
// text leaves a node without data, because there may be reports below it. See
// [registry.DocumentWriter].
func (r *Registry) WriteDocument(ctx context.Context, key string, text []byte) error {
	if err := registry.CheckDocument(text); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	p, err := r.documents(key)
	if err != nil {
		return err
	}
	l, release, err := r.links.Acquire(p.link)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer release()
	if err := l.write(ctx, key, text, p.acl); err != nil {
		return fmt.Errorf("%s: writing %s: %w", name, key, err)
	}
	return nil
}

// write sets the data of a node, or makes one.
func (l *link) write(ctx context.Context, at string, text []byte, acl []zk.ACL) error {
	for range attempts {
		err := l.set(ctx, at, text, -1)
		if !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		if len(text) == 0 {
			return nil
		}
		if err = l.makeDir(ctx, path.Dir(at), acl); err == nil {
			err = l.make(ctx, at, text, zk.FlagPersistent, acl)
		}
		if !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
	}
	return errors.New("it is created and deleted again and again")
}

// reportDir returns the directory of the reports on a document.
func reportDir(key string) string { return key + "/applied" }

// PutReport makes an ephemeral node below the document's, in the directory applied. The
// node is deleted when the registry is closed or its session ends, whatever life is. See
// [registry.Documents].
func (r *Registry) PutReport(ctx context.Context, key, reporter string, report []byte, life time.Duration) error {
	if err := registry.CheckReport(reporter, report, life); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	p, err := r.documents(key)
	if err != nil {
		return err
	}
	l, err := r.connect(p)
	if err != nil {
		return err
	}
	at := reportDir(key) + "/" + escape(reporter)
	if err := l.putReport(ctx, at, report, p.acl); err != nil {
		return fmt.Errorf("%s: reporting beside %s: %w", name, key, err)
	}
	return r.keep(leaf{l, at})
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
func (r *Registry) Reports(ctx context.Context, key string) (map[string][]byte, error) {
	p, err := r.documents(key)
	if err != nil {
		return nil, err
	}
	l, release, err := r.links.Acquire(p.link)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
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
