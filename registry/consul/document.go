package consul

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hashicorp/consul/api"

	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/adapter"
)

var (
	_ registry.Documents      = (*Registry)(nil)
	_ registry.DocumentWriter = (*Registry)(nil)
	_ registry.DocumentFinder = (*Registry)(nil)
	_ registry.DocumentWriter = documents{}
)

// documents are the documents in the key-value store of a place's agents. They share the
// connections of the registry.
type documents struct {
	registry *Registry
	place    place // zero for a Resolver's own, which has none
}

// DocumentsOf returns the documents of the agents that the target names, or of the
// registry's own for the zero Target. The key of the document of the list /base/Service is
// /tandem-overrides/base/Service, escaped as in the names of services. See
// [registry.DocumentFinder].
func (r *Registry) DocumentsOf(target registry.Target) (d registry.Documents, key string, err error) {
	p, err := r.place(target)
	if err != nil {
		return nil, "", err
	}
	elements := strings.Split(p.path[1:], "/")
	for i, e := range elements {
		elements[i] = escape(e, true) // Consul takes no elements such as ".."
	}
	key = registry.OverridesKey(strings.Join(elements, "/"))
	_, err = documentKey(key)
	return documents{r, p}, key, err
}

// Limits of documents in Consul.
const (
	maxKey      = 1024             // bytes of a key
	leastLife   = 10 * time.Second // Consul's shortest life of a session, and so of a report
	documentsIn = 5 * time.Second  // for all requests of one method call
)

// WatchDocument delivers the value of a key of Consul's key-value store and its changes.
// In Consul, a key such as /shop/policies/Cart has no slash at its start. Keys below it
// are reports. A watch needs key:read. See [registry.Documents].
func (d documents) WatchDocument(ctx context.Context, key string, update func(text []byte, err error)) error {
	agents, at, release, err := d.connect(key)
	if err != nil {
		return err
	}
	defer release()
	defer agents.join()()
	return adapter.DocumentFollower{Name: name, Session: func(ctx context.Context, deliver func([]byte)) error {
		return agents.document(ctx, at, deliver)
	}}.Follow(ctx, update)
}

// connect returns the agents, the key of a document in Consul, and the function that
// releases the agents.
func (d documents) connect(key string) (a *agents, at string, release func(), err error) {
	if d.place.hosts == "" {
		return nil, "", nil, errors.New(name + ": a resolver has no documents of its own; use New, or DocumentsOf")
	}
	if at, err = documentKey(key); err != nil {
		return nil, "", nil, err
	}
	a, release, err = d.registry.shared.Acquire(d.place.hosts)
	return a, at, release, err
}

// documentKey returns the key of a document in Consul.
func documentKey(key string) (string, error) {
	if len(key) < 2 || key[0] != '/' || strings.HasSuffix(key, "/") || strings.Contains(key, "//") || len(key) > maxKey || !utf8.ValidString(key) {
		return "", fmt.Errorf("%s: key %.100q: want one such as /shop/policies/Cart, of up to %d bytes", name, key, maxKey)
	}
	return key[1:], nil
}

// document reads a key and follows its changes.
func (a *agents) document(ctx context.Context, key string, deliver func([]byte)) error {
	host, n := a.host()
	for index := uint64(0); ; {
		began := time.Now()
		var pair *api.KVPair
		meta, err := a.query(ctx, index, func(q *api.QueryOptions) (meta *api.QueryMeta, err error) {
			pair, meta, err = host.KV().Get(key, q)
			return meta, err
		})
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			a.failed(n, err)
			return err
		}
		index = nextIndex(index, meta.LastIndex)
		switch {
		case index == 0:
		case pair == nil:
			deliver(nil)
		default:
			deliver(pair.Value)
		}
		rest(ctx, pace-time.Since(began))
	}
}

// ReadDocument reads the value of a key, with a consistent read. It needs key:read. See
// [registry.DocumentWriter].
func (d documents) ReadDocument(ctx context.Context, key string) (text []byte, err error) {
	err = d.withAgent(ctx, key, func(host *api.Client, at string, q *api.WriteOptions) error {
		pair, err := readDocument(q.Context(), host, at)
		text = pair.Value
		return err
	})
	return text, err
}

// readDocument returns a pair without a value if the document is empty, and without an
// index if there is none.
func readDocument(ctx context.Context, host *api.Client, at string) (*api.KVPair, error) {
	pair, _, err := host.KV().Get(at, (&api.QueryOptions{RequireConsistent: true}).WithContext(ctx))
	if pair == nil {
		return &api.KVPair{Key: at}, err
	}
	if len(pair.Value) == 0 {
		pair.Value = nil
	}
	return pair, errors.Join(err, adapter.CheckDocument(pair.Value))
}

// SwapDocument writes the value of a key, of up to 512 KiB unless Consul is configured
// otherwise, or deletes the key, if it still has the index that it was read with. It needs
// key:read and key:write. See [registry.DocumentWriter].
func (d documents) SwapDocument(ctx context.Context, key string, old, text []byte) error {
	if err := adapter.CheckDocument(text); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return d.withAgent(ctx, key, func(host *api.Client, at string, q *api.WriteOptions) error {
		pair, err := readDocument(q.Context(), host, at)
		switch {
		case err != nil:
			return err
		case !bytes.Equal(pair.Value, old):
			return fmt.Errorf("key %s: %w", at, registry.ErrChanged)
		case len(text) == 0 && len(old) == 0:
			return nil
		}
		done, err := swap(host, pair, text, q)
		if err != nil {
			return unsure{err}
		}
		if !done {
			return fmt.Errorf("key %s: %w", at, registry.ErrChanged)
		}
		return nil
	})
}

// unsure is the error of a write that an agent may have passed on all the same. No other
// agent must be asked for it: it would find its own text, and take it for a change.
type unsure struct{ error }

func (u unsure) Unwrap() error { return u.error }

// swap replaces a pair by another text, and reports whether it was still the same.
func swap(host *api.Client, pair *api.KVPair, text []byte, q *api.WriteOptions) (bool, error) {
	if len(text) == 0 {
		return deleteSame(q.Context(), host, pair)
	}
	pair.Value = text
	done, _, err := host.KV().CAS(pair, q)
	if err != nil && len(text) > defaultRoom {
		// The agent refuses the request before it has read all of it, so its response may be lost.
		err = fmt.Errorf("%w (of %d bytes: Consul takes %d unless its limits.kv_max_value_size says otherwise)", err, len(text), defaultRoom)
	}
	return done, err
}

// deleteSame deletes a pair if it is still the same. A delete with cas alone also succeeds
// if the key has been deleted meanwhile.
func deleteSame(ctx context.Context, host *api.Client, pair *api.KVPair) (bool, error) {
	done, response, _, err := host.Txn().Txn(api.TxnOps{
		{KV: &api.KVTxnOp{Verb: api.KVCheckIndex, Key: pair.Key, Index: pair.ModifyIndex}},
		{KV: &api.KVTxnOp{Verb: api.KVDelete, Key: pair.Key}},
	}, (&api.QueryOptions{}).WithContext(ctx))
	if err == nil && !done && len(response.Errors) > 0 && response.Errors[0].OpIndex != 0 {
		err = errors.New(response.Errors[0].What)
	}
	return done, err
}

// defaultRoom is Consul's default limit of a value, in bytes.
const defaultRoom = 512 << 10

// withAgent calls f with the agent in use and the key in Consul, and after an error that
// another agent may not have, with the next agent. All calls together take at most
// documentsIn.
func (d documents) withAgent(ctx context.Context, key string, f func(*api.Client, string, *api.WriteOptions) error) error {
	agents, at, release, err := d.connect(key)
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, documentsIn)
	defer cancel()
	for range agents.hosts {
		host, n := agents.host()
		err = f(host, at, (&api.WriteOptions{}).WithContext(ctx))
		if err == nil {
			return nil
		}
		if errors.Is(err, registry.ErrChanged) {
			break
		}
		agents.failed(n, err)
		if _, written := errors.AsType[unsure](err); written || !nextMaySucceed(err) || ctx.Err() != nil {
			break
		}
	}
	return fmt.Errorf("%s: %w", name, err)
}

// reportPrefix returns the prefix of the keys of a document's reports.
func reportPrefix(at string) string { return at + "/applied/" }

// PutReport writes a key below the document's key and /applied, and locks it with a
// Consul session whose time to live is the report's life, at least 10 s. When that is
// over, Consul deletes the key, within twice the time. It needs key:write and
// session:write. See [registry.Documents].
func (d documents) PutReport(ctx context.Context, key, reporter string, report []byte, life time.Duration) error {
	if err := adapter.CheckReport(reporter, report, life); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return d.withAgent(ctx, key, func(host *api.Client, at string, q *api.WriteOptions) error {
		prefix := reportPrefix(at)
		p := &api.KVPair{Key: prefix + url.PathEscape(reporter), Value: report}
		if err := checkReportLimit(q.Context(), host, prefix, p); err != nil {
			return err
		}
		return hold(host, p, max(life, leastLife), q)
	})
}

// checkReportLimit fails with ErrReports when there are MaxReports reports and none at p's key. If
// there is a report at p's key, checkReportLimit sets p.Session to its session.
func checkReportLimit(ctx context.Context, host *api.Client, prefix string, p *api.KVPair) error {
	q := (&api.QueryOptions{}).WithContext(ctx)
	there, _, err := host.KV().Get(p.Key, q)
	if err != nil {
		return err
	}
	if there != nil {
		p.Session = there.Session
		return nil
	}
	all, _, err := host.KV().Keys(prefix, "", q)
	if err == nil && len(all) >= registry.MaxReports {
		return registry.ErrReports
	}
	return err
}

// hold writes a key and locks it with the session in p, which it renews. If there is no
// session, or its life is not this one, hold makes a new session; the old session is
// destroyed first, and the key with it.
func hold(host *api.Client, p *api.KVPair, life time.Duration, q *api.WriteOptions) error {
	session, err := extend(host, p.Session, life, q)
	if err != nil {
		return err
	}
	if session == "" {
		session, _, err = host.Session().CreateNoChecks(&api.SessionEntry{
			Name: "tandem report", TTL: life.String(), Behavior: api.SessionBehaviorDelete,
			LockDelay: time.Millisecond, // the shortest; 0 would mean 15 s
		}, q)
		if err != nil {
			return err
		}
	}
	p.Session = session
	held, _, err := host.KV().Acquire(p, q)
	if err == nil && !held {
		err = errors.New("another client reports under the same name at the same time: give each client a name of its own")
	}
	if err != nil {
		_, _ = host.Session().Destroy(session, q) // after an error the session ends by itself
	}
	return err
}

// extend renews a session and returns it. It destroys a session whose life is not this
// one, and returns "", as it does when there is no session.
func extend(host *api.Client, session string, life time.Duration, q *api.WriteOptions) (string, error) {
	if session == "" {
		return "", nil
	}
	there, _, err := host.Session().Renew(session, q)
	if err != nil || there == nil {
		return "", err // there is nil if the session has just ended
	}
	if there.TTL == life.String() {
		return session, nil
	}
	_, err = host.Session().Destroy(session, q)
	return "", err
}

// Reports reads the reports below a document's key. See [registry.Documents].
func (d documents) Reports(ctx context.Context, key string) (map[string][]byte, error) {
	reports := make(map[string][]byte)
	err := d.withAgent(ctx, key, func(host *api.Client, at string, q *api.WriteOptions) error {
		prefix := reportPrefix(at)
		pairs, _, err := host.KV().List(prefix, (&api.QueryOptions{}).WithContext(q.Context()))
		for _, p := range pairs {
			if reporter, bad := url.PathUnescape(strings.TrimPrefix(p.Key, prefix)); bad == nil {
				reports[reporter] = p.Value
			}
		}
		return err
	})
	return reports, err
}
