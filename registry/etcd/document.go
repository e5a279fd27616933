package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/adapter"
)

var (
	_ registry.Documents      = (*Registry)(nil)
	_ registry.DocumentWriter = (*Registry)(nil)
	_ registry.DocumentFinder = (*Registry)(nil)
	_ registry.DocumentWriter = documents{}
)

// documents are the documents of the cluster of a place. They connect as the registry does,
// and share its connections.
type documents struct {
	registry *Registry
	place    *place // nil for a Resolver's own, which has none
}

// DocumentsOf returns the documents of the cluster that the target names, or of the
// registry's own when it names none. The key of the document of the directory /shop/Cart
// is /tandem-overrides/shop/Cart. See [registry.DocumentFinder].
func (r *Registry) DocumentsOf(target registry.Target) (d registry.Documents, key string, err error) {
	p, err := r.placeOf(target)
	if err != nil {
		return nil, "", err
	}
	key = registry.OverridesKey(p.dir)
	return documents{r, p}, key, checkDocumentKey(key)
}

// WatchDocument delivers the value of a key and its changes. The key is a full etcd key,
// such as /shop/policies/Cart, and does not depend on the registry's directory; it should
// not be directly below the directory of a list. Keys below it are reports. See
// [registry.Documents].
func (d documents) WatchDocument(ctx context.Context, key string, update func(text []byte, err error)) error {
	c, release, err := d.connect(key)
	if err != nil {
		return err
	}
	defer release()
	s := &session{conn: c, place: d.place, log: d.registry.options.log}
	return adapter.DocumentFollower{Name: name, Session: func(ctx context.Context, deliver func([]byte)) error {
		return s.whileConnected(ctx, func(ctx context.Context) error { return s.document(ctx, key, deliver) })
	}}.Follow(ctx, update)
}

// connect checks the key, and returns a connection and the function that releases it.
func (d documents) connect(key string) (*conn, func(), error) {
	if d.place == nil {
		return nil, nil, errors.New(name + ": a Resolver has no documents of its own; use New, or DocumentsOf")
	}
	if err := checkDocumentKey(key); err != nil {
		return nil, nil, err
	}
	c, release, err := d.registry.conns.Acquire(d.place.servers)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	return c, release, nil
}

func checkDocumentKey(key string) error {
	if len(key) < 2 || key[0] != '/' || strings.HasSuffix(key, "/") || len(key) > 1024 {
		return fmt.Errorf("%s: key %.100q: want one such as /shop/policies/Cart, of up to 1024 bytes", name, key)
	}
	return nil
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

// ReadDocument reads the value of a key, with a linearizable read. See
// [registry.DocumentWriter].
func (d documents) ReadDocument(ctx context.Context, key string) (text []byte, err error) {
	err = d.withClient(ctx, key, func(ctx context.Context, client *clientv3.Client) error {
		text, _, err = readDocument(ctx, client, key)
		return err
	})
	return text, err
}

// readDocument returns the value of a key, nil if it is empty or there is none, and the
// revision that wrote it, 0 if there is none.
func readDocument(ctx context.Context, client *clientv3.Client, key string) (text []byte, revision int64, err error) {
	resp, err := client.Get(ctx, key)
	if err != nil {
		return nil, 0, err
	}
	for _, kv := range resp.Kvs {
		text, revision = kv.GetValue(), kv.GetModRevision()
	}
	if err := adapter.CheckDocument(text); err != nil {
		return nil, 0, err
	}
	if len(text) == 0 {
		text = nil
	}
	return text, revision, nil
}

// SwapDocument reads the value of a key, and writes it or deletes the key in a transaction,
// if no other has been written meanwhile. See [registry.DocumentWriter].
func (d documents) SwapDocument(ctx context.Context, key string, old, text []byte) error {
	if err := adapter.CheckDocument(text); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return d.withClient(ctx, key, func(ctx context.Context, client *clientv3.Client) error {
		now, revision, err := readDocument(ctx, client, key)
		if err != nil {
			return err
		}
		if !bytes.Equal(now, old) {
			return fmt.Errorf("key %s: %w", key, registry.ErrChanged)
		}
		// The transaction compares the revision and not the value: etcd's limit of a request
		// has room for one document only.
		write := clientv3.OpPut(key, string(text))
		if len(text) == 0 {
			write = clientv3.OpDelete(key)
		}
		resp, err := client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", revision)).Then(write).Commit()
		if err == nil && !resp.Succeeded {
			err = fmt.Errorf("key %s: %w", key, registry.ErrChanged)
		}
		return err
	})
}

// reportPrefix returns the prefix of the keys of a document's reports.
func reportPrefix(key string) string { return key + "/applied/" }

// PutReport writes a report below the document's key and /applied, with a lease as long
// as its life. See [registry.Documents].
func (d documents) PutReport(ctx context.Context, key, reporter string, report []byte, life time.Duration) error {
	if err := adapter.CheckReport(reporter, report, life); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	err := d.withClient(ctx, key, func(ctx context.Context, client *clientv3.Client) error {
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
func (d documents) Reports(ctx context.Context, key string) (map[string][]byte, error) {
	reports := make(map[string][]byte)
	prefix := reportPrefix(key)
	err := d.withClient(ctx, key, func(ctx context.Context, client *clientv3.Client) error {
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
func (d documents) withClient(ctx context.Context, key string, f func(context.Context, *clientv3.Client) error) error {
	c, release, err := d.connect(key)
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
