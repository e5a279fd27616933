package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/tandem-rpc/tandem/registry"
)

// errInterrupted is returned by an operation whose connection was lost. The server may
// have executed it.
var errInterrupted = errors.New("the connection was lost")

// call runs one operation of the library, which takes no context. When ctx ends, call
// returns; the operation goes on until the library has its response, or gives the
// connection up after two thirds of the session timeout.
func call[T any](ctx context.Context, l *link, op func(conn *zk.Conn) (T, error)) (T, error) {
	var none T
	conn, lost, err := l.await(ctx)
	if err != nil {
		return none, err
	}
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := op(conn)
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		if interrupted(r.err) {
			r.err = fmt.Errorf("%w: %w", errInterrupted, r.err)
			settle(ctx, lost)
		}
		return r.value, r.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// interrupted reports whether an operation failed with its connection: err is one of the
// library's errors for that, or a network error of a write, after which the library
// closes the connection.
func interrupted(err error) bool {
	for _, e := range []error{zk.ErrConnectionClosed, zk.ErrSessionExpired, zk.ErrNoServer, zk.ErrClosing} {
		if errors.Is(err, e) {
			return true
		}
	}
	var broken net.Error
	return errors.As(err, &broken)
}

// settle waits until the loss of a connection is known, at most a second. The library
// refuses operations a little sooner, and would refuse a retry made at once, too.
func settle(ctx context.Context, lost <-chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	select {
	case <-lost:
	case <-ctx.Done():
	}
}

// watch runs set, which reads a node and sets a watch, or plain, which only reads it, if
// that watch is already set.
func (l *link) watch(key watchKey, set, plain func() error) error {
	l.mu.Lock()
	must := l.watching.begin(key)
	l.mu.Unlock()
	if !must {
		return plain()
	}
	err := set()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watching.end(key, err == nil)
	return err
}

// isSet reports whether the watch of a node's data is set.
func (l *link) isSet(path string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.watching.isSet(watchKey{path, ofData})
}

// children returns the names of a directory's nodes and watches them. If the directory
// does not exist, children returns none and watches for its creation.
func (l *link) children(ctx context.Context, dir string) ([]string, error) {
	for range attempts {
		names, err := call(ctx, l, func(conn *zk.Conn) (names []string, err error) {
			err = l.watch(watchKey{dir, ofChildren},
				func() (err error) { names, _, _, err = conn.ChildrenW(dir); return err },
				func() (err error) { names, _, err = conn.Children(dir); return err })
			return names, err
		})
		if !errors.Is(err, zk.ErrNoNode) {
			return names, err
		}
		there, err := l.existsW(ctx, dir)
		if err != nil || !there {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%s is created and deleted again and again", dir)
}

// existsW reports whether a node exists, and watches for its creation and deletion.
func (l *link) existsW(ctx context.Context, path string) (bool, error) {
	return call(ctx, l, func(conn *zk.Conn) (there bool, err error) {
		err = l.watch(watchKey{path, ofExistence},
			func() (err error) { there, _, _, err = conn.ExistsW(path); return err },
			func() (err error) { there, _, err = conn.Exists(path); return err })
		return there, err
	})
}

// node is a node as it was read.
type node struct {
	data []byte
	stat *zk.Stat
}

// get reads a node.
func (l *link) get(ctx context.Context, path string) (node, error) {
	return call(ctx, l, func(conn *zk.Conn) (n node, err error) {
		n.data, n.stat, err = conn.Get(path)
		return n, err
	})
}

// getW reads a node and watches it.
func (l *link) getW(ctx context.Context, path string) (node, error) {
	return call(ctx, l, func(conn *zk.Conn) (n node, err error) {
		err = l.watch(watchKey{path, ofData},
			func() (err error) { n.data, n.stat, _, err = conn.GetW(path); return err },
			func() (err error) { n.data, n.stat, err = conn.Get(path); return err })
		return n, err
	})
}

// modified returns the transaction that last changed a node, 0 if there is no node.
func (l *link) modified(ctx context.Context, path string) (int64, error) {
	return call(ctx, l, func(conn *zk.Conn) (int64, error) {
		there, stat, err := conn.Exists(path)
		if err != nil || !there {
			return 0, err
		}
		return stat.Mzxid, nil
	})
}

// set replaces the data of a node. It fails if the node has another version; -1 is any.
func (l *link) set(ctx context.Context, path string, data []byte, version int32) error {
	_, err := call(ctx, l, func(conn *zk.Conn) (*zk.Stat, error) { return conn.Set(path, data, version) })
	return err
}

// delete deletes a node. It fails if the node has another version; -1 is any.
func (l *link) delete(ctx context.Context, path string, version int32) error {
	_, err := call(ctx, l, func(conn *zk.Conn) (struct{}, error) { return struct{}{}, conn.Delete(path, version) })
	return err
}

// create makes an ephemeral node, and the persistent ones above it that are missing.
func (l *link) create(ctx context.Context, at string, data []byte, acl []zk.ACL) error {
	err := l.make(ctx, at, data, zk.FlagEphemeral, acl)
	if errors.Is(err, zk.ErrNoNode) {
		if err = l.makeDir(ctx, path.Dir(at), acl); err == nil {
			err = l.make(ctx, at, data, zk.FlagEphemeral, acl)
		}
	}
	return err
}

// makeDir makes a directory and those above it that are missing. All users share the one of
// registry.OverridesKey, so everybody may create nodes in it and below.
func (l *link) makeDir(ctx context.Context, dir string, acl []zk.ACL) error {
	if dir == "/" {
		return nil
	}
	all := zk.WorldACL(zk.PermCreate)[0]
	if strings.HasPrefix(dir+"/", registry.OverridesKey("")) && !slices.Contains(acl, all) {
		acl = append(slices.Clone(acl), all)
	}
	err := l.make(ctx, dir, nil, zk.FlagPersistent, acl)
	if errors.Is(err, zk.ErrNoNode) {
		if err = l.makeDir(ctx, path.Dir(dir), acl); err == nil {
			err = l.make(ctx, dir, nil, zk.FlagPersistent, acl)
		}
	}
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

func (l *link) make(ctx context.Context, path string, data []byte, flags int32, acl []zk.ACL) error {
	_, err := call(ctx, l, func(conn *zk.Conn) (string, error) { return conn.Create(path, data, flags, acl) })
	return err
}

// replace deletes a version of a node and makes an ephemeral one, in one transaction, so
// that no reader sees a list with neither.
func (l *link) replace(ctx context.Context, old string, version int32, create *zk.CreateRequest) error {
	_, err := call(ctx, l, func(conn *zk.Conn) (struct{}, error) {
		results, err := conn.Multi(&zk.DeleteRequest{Path: old, Version: version}, create)
		for _, r := range results {
			if err == nil {
				err = r.Error
			}
		}
		return struct{}{}, err
	})
	return err
}
