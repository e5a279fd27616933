package zookeeper

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/adapter"
)

// attempts is how often an operation of several steps is tried while its error is
// temporary.
const attempts = 5

// anyVersion matches every version of a node.
const anyVersion = -1

// entry is an adapter.Entry: one ephemeral node.
type entry struct {
	link  *link
	place place
	lost  chan struct{} // has a token when the session was lost

	in    tandem.Instance // the instance, as last put
	path  string          // path of its node, as last put
	data  []byte          // data of its node, as last put
	paths []string        // paths of all nodes that may be this entry's: path, and its earlier values
}

var _ adapter.Entry = (*entry)(nil)

func newEntry(l *link, p place) *entry {
	e := &entry{link: l, place: p, lost: make(chan struct{}, 1)}
	l.register(e.lost)
	return e
}

// Put lists the instance. A node that exists is overwritten if it belongs to this session,
// and replaced if it is left from an earlier one. Put returns registry.ErrSuperseded if a
// later incarnation is listed.
func (e *entry) Put(ctx context.Context, in tandem.Instance) error {
	node, data, err := e.place.layout.node(in)
	if err != nil {
		return err
	}
	path := e.place.dir + "/" + node
	err = errInterrupted
	for n := 0; n < attempts && passing(err); n++ {
		if err = e.takeOver(ctx, &in, node, path); err == nil {
			err = e.put(ctx, &in, path, data)
		}
	}
	if err != nil {
		return err
	}
	e.in, e.path, e.data = in, path, data
	return e.move(ctx)
}

// passing reports whether an error is temporary: another client has changed a node between
// two steps, or the connection was lost. A retry waits for the next connection.
func passing(err error) bool {
	for _, e := range []error{zk.ErrNoNode, zk.ErrNodeExists, zk.ErrBadVersion, errInterrupted} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func (e *entry) put(ctx context.Context, in *tandem.Instance, path string, data []byte) error {
	there, err := e.link.get(ctx, path)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	if err == nil && !e.owns(path, there) && e.superseded(path, there.data, in) {
		return registry.ErrSuperseded
	}
	e.link.claim(path, e)
	if !slices.Contains(e.paths, path) {
		e.paths = append(e.paths, path)
	}
	switch {
	case err != nil:
		return e.link.create(ctx, path, data, e.place.acl)
	case there.stat.EphemeralOwner == e.link.sessionID():
		return e.link.set(ctx, path, data, there.stat.Version)
	}
	return e.link.replace(ctx, path, there.stat.Version,
		&zk.CreateRequest{Path: path, Data: data, Acl: e.place.acl, Flags: zk.FlagEphemeral})
}

// takeOver deletes the nodes of earlier incarnations in a layout whose node names hold the
// whole instance: there, each incarnation has a node of its own.
func (e *entry) takeOver(ctx context.Context, in *tandem.Instance, own, path string) error {
	if !e.place.layout.named() {
		return nil
	}
	names, err := e.link.children(ctx, e.place.dir)
	if err != nil {
		return err
	}
	wanted, err := e.place.layout.parse(own, nil)
	if err != nil {
		return err
	}
	for _, name := range names {
		at := e.place.dir + "/" + name
		listed, err := e.place.layout.parse(name, nil)
		if err != nil || listed.ID != wanted.ID || at == path || slices.Contains(e.paths, at) {
			continue
		}
		if adapter.Supersedes(&listed, in) {
			return registry.ErrSuperseded
		}
		if err := e.link.delete(ctx, at, anyVersion); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
	return nil
}

// owns reports whether a node is this entry's own: the last to write it was this
// entry, in this session or in one that has expired.
func (e *entry) owns(path string, n node) bool {
	ours := n.stat.EphemeralOwner == e.link.sessionID() || bytes.Equal(n.data, e.data)
	return ours && e.link.claimed(path, e)
}

// superseded reports whether a node holds a later incarnation of the instance. It reports
// false for a node that can't be parsed.
func (e *entry) superseded(path string, data []byte, in *tandem.Instance) bool {
	listed, err := e.place.layout.parse(path[len(e.place.dir)+1:], data)
	return err == nil && adapter.Supersedes(&listed, in)
}

// move deletes the nodes that the instance had before its node's name changed.
func (e *entry) move(ctx context.Context) error {
	for _, path := range slices.Clone(e.paths) {
		if path == e.path {
			continue
		}
		if err := e.removeAt(ctx, path); err != nil {
			return err
		}
	}
	return nil
}

// Check fails if the node is gone, was changed, or belongs to another session. It renews
// nothing, because the library keeps the session alive.
func (e *entry) Check(ctx context.Context) error {
	n, err := e.link.get(ctx, e.path)
	switch {
	case err != nil:
		return err
	case n.stat.EphemeralOwner != e.link.sessionID():
		err = errors.New("the node is not of this session")
	case !bytes.Equal(n.data, e.data):
		err = errors.New("the node was changed")
	default:
		return nil
	}
	if e.superseded(e.path, n.data, &e.in) {
		return registry.ErrSuperseded
	}
	return err
}

// Delete deletes the instance's nodes. If that fails, the link deletes them later, while
// the session lasts.
func (e *entry) Delete(ctx context.Context) error {
	e.link.unregister(e.lost)
	if len(e.paths) == 0 {
		return nil
	}
	err := e.remove(ctx)
	if err != nil {
		e.link.leave(e)
	}
	return err
}

// remove deletes all nodes that may be the entry's.
func (e *entry) remove(ctx context.Context) error {
	for _, path := range slices.Clone(e.paths) {
		if err := e.removeAt(ctx, path); err != nil {
			return err
		}
	}
	return nil
}

// removeAt deletes the node at a path if it belongs to this session and no other entry has
// claimed it. The server deletes a node of an earlier session when that one expires.
func (e *entry) removeAt(ctx context.Context, path string) error {
	err := errInterrupted
	for n := 0; n < attempts && passing(err) && e.link.claimed(path, e); n++ {
		err = e.link.deleteOwn(ctx, path)
	}
	if err != nil && e.link.claimed(path, e) {
		return fmt.Errorf("deleting %s: %w", path, err)
	}
	e.link.unclaim(path, e)
	e.paths = slices.DeleteFunc(e.paths, func(p string) bool { return p == path })
	return nil
}

// deleteOwn deletes a node if it exists and belongs to this session.
func (l *link) deleteOwn(ctx context.Context, path string) error {
	n, err := l.get(ctx, path)
	if err == nil && n.stat.EphemeralOwner == l.sessionID() {
		err = l.delete(ctx, path, n.stat.Version)
	}
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}
