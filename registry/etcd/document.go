package etcd

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tandem-rpc/tandem/registry"
)

var (
	_ registry.Documents      = (*Registry)(nil)
	_ registry.DocumentWriter = (*Registry)(nil)
)

// WatchDocument delivers the value of a key and its changes. The key is a full etcd key,
// such as /shop/policies/Cart, and does not depend on the registry's directory; it should
// not be directly below the directory of a list. Keys below it are reports. See
// [registry.Documents].
func (r *Registry) WatchDocument(ctx context.Context, key string, update func(text []byte, err error)) error {
	c, release, err := r.documents(key)
	if err != nil {
		return err
	}
	defer release()
	s := &session{conn: c, place: r.own, log: r.options.log}
	return registry.DocumentFollower{Name: name, Session: func(ctx context.Context, deliver func([]byte)) error {
		return s.whileConnected(ctx, func(ctx context.Context) error { return s.document(ctx, key, deliver) })
	}}.Follow(ctx, update)
}

// documents checks the key, and returns a connection and the function that releases it.
func (r *Registry) documents(key string) (*conn, func(), error) {
	if r.own == nil {
		return nil, nil, errors.New(name + ": a Resolver has no documents; use New")
	}
	if len(key) < 2 || key[0] != '/' || strings.HasSuffix(key, "/") || len(key) > 1024 {
		return nil, nil, fmt.Errorf("%s: key %.100q: want one such as /shop/policies/Cart", name, key)
	}
	c, release, err := r.conns.Acquire(r.own.servers)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	return c, release, nil
}

// document reads a key and follows its changes.
func (s *session) document(ctx context.Context, key string, deliver func([]byte)) error {
	client, err := s.client(ctx)
	if err != nil {
		return err
	}
	resp, err := s.get(ctx, client, key)
	if err != nil {
		return s.conn.explain(client, err)
	}
	var text []byte
	for _, kv := range resp.Kvs {
		text = kv.GetValue()
	}
	deliver(text)
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	for resp := range client.Watch(ctx, key, clientv3.WithRev(resp.Header.GetRevision()+1), clientv3.WithProgressNotify()) {
		if err := resp.Err(); err != nil {
			return err
		}
		s.conn.answered()
		for _, event := range resp.Events {
			deliver(event.GetKv().GetValue()) // empty for a deleted key
		}
	}
	return errors.New("etcd ended the watch")
}

// WriteDocument writes the value of a key, or deletes the key. See [registry.DocumentWriter].
func (r *Registry) WriteDocument(ctx context.Context, key string, text []byte) error {
	if err := registry.CheckDocument(text); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return r.withClient(ctx, key, func(ctx context.Context, client *clientv3.Client) error {
		if len(text) == 0 {
			_, err := client.Delete(ctx, key)
			return err
		}
		_, err := client.Put(ctx, key, string(text))
		return err
	})
}

// reportPrefix returns the prefix of the keys of a document's reports.
func reportPrefix(key string) string { return key + "/applied/" }

// PutReport writes a report below the document's key and /applied, with a lease as long
// as its life. See [registry.Documents].
func (r *Registry) PutReport(ctx context.Context, key, reporter string, report []byte, life time.Duration) error {
	if err := registry.CheckReport(reporter, report, life); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	err := r.withClient(ctx, key, func(ctx context.Context, client *clientv3.Client) error {
		at := reportPrefix(key) + url.PathEscape(reporter)
		if err := checkReportLimit(ctx, client, reportPrefix(key), at); err != nil {
			return err
		}
		lease, err := client.Grant(ctx, int64(life/time.Second))
		if err != nil {
			return err
		}
		before, err := client.Put(ctx, at, string(report), clientv3.WithLease(lease.ID), clientv3.WithPrevKV())
		if err != nil {
			return err
		}
		if old := clientv3.LeaseID(before.PrevKv.GetLease()); old != clientv3.NoLease && old != lease.ID {
			_, _ = client.Revoke(ctx, old) // after an error the lease ends by itself
		}
		return nil
	})
	return err
}

// checkReportLimit fails with ErrReports when there are MaxReports reports and none at this key.
func checkReportLimit(ctx context.Context, client *clientv3.Client, prefix, at string) error {
	all, err := client.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil || all.Count < registry.MaxReports {
		return err
	}
	own, err := client.Get(ctx, at, clientv3.WithCountOnly())
	if err == nil && own.Count == 0 {
		err = registry.ErrReports
	}
	return err
}

// Reports reads the reports below a document's key. See [registry.Documents].
func (r *Registry) Reports(ctx context.Context, key string) (map[string][]byte, error) {
	reports := make(map[string][]byte)
	prefix := reportPrefix(key)
	err := r.withClient(ctx, key, func(ctx context.Context, client *clientv3.Client) error {
		from, end := prefix, clientv3.GetPrefixRangeEnd(prefix)
		for len(reports) < 2*registry.MaxReports {
			resp, err := client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(pageSize))
			if err != nil {
				return err
			}
			for _, kv := range resp.Kvs {
				from = string(kv.GetKey()) + "\x00"
				if reporter, err := url.PathUnescape(strings.TrimPrefix(string(kv.GetKey()), prefix)); err == nil {
					reports[reporter] = kv.GetValue()
				}
			}
			if !resp.More {
				break
			}
		}
		return nil
	})
	return reports, err
}

// withClient runs f with the client and a deadline of firstTimeout. A deadline error
// says why no server could be reached.
func (r *Registry) withClient(ctx context.Context, key string, f func(context.Context, *clientv3.Client) error) error {
	c, release, err := r.documents(key)
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, firstTimeout)
	defer cancel()
	client, err := c.open(ctx)
	if err == nil {
		err = c.explain(client, f(ctx, client))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
