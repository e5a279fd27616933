package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/adapter"
)

// Bounds of reading a directory, in keys.
const (
	pageSize = 500                       // keys of one request
	maxKeys  = 4 * registry.MaxInstances // keys of one list
)

// session reads a directory, and follows its changes.
type session struct {
	conn  *conn
	place *place
	log   *slog.Logger
	last  int64 // the latest revision seen
}

// run is the Session of an adapter.Follower: it returns when the connection is lost,
// or anything else fails.
func (s *session) run(ctx context.Context, m *adapter.Mirror) error {
	return s.whileConnected(ctx, func(ctx context.Context) error { return s.mirror(ctx, m) })
}

// whileConnected runs f with a context that ends when the connection is lost.
func (s *session) whileConnected(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	epoch := s.conn.current()
	stop := context.AfterFunc(epoch, func() { cancel(context.Cause(epoch)) })
	defer stop()
	err := f(ctx)
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

func (s *session) mirror(ctx context.Context, m *adapter.Mirror) error {
	client, revision, err := s.begin(ctx, m)
	if err != nil {
		return err
	}
	return s.follow(ctx, client, revision, m)
}

// begin reads the list, after waiting while maxLists others are being read.
func (s *session) begin(ctx context.Context, m *adapter.Mirror) (*clientv3.Client, int64, error) {
	select {
	case s.conn.lists <- struct{}{}:
		defer func() { <-s.conn.lists }()
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
	client, err := s.client(ctx)
	if err != nil {
		return nil, 0, err
	}
	revision, err := s.list(ctx, client, m)
	if err != nil {
		return nil, 0, s.conn.explain(client, err)
	}
	return client, revision, nil
}

// client returns the client, unless no server can be reached.
func (s *session) client(ctx context.Context) (*clientv3.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	client, err := s.conn.open(ctx)
	if err != nil {
		return nil, err
	}
	return client, down(ctx, client)
}

// list reads the whole directory at one revision, which it returns, page by page.
func (s *session) list(ctx context.Context, client *clientv3.Client, m *adapter.Mirror) (int64, error) {
	var (
		revision int64
		keys     int
		limit    = int64(pageSize)
		from     = s.place.prefix()
		end      = clientv3.GetPrefixRangeEnd(from)
		entries  = make(map[string]tandem.Instance)
	)
	for {
		resp, err := s.get(ctx, client, from, clientv3.WithRange(end), clientv3.WithRev(revision), clientv3.WithLimit(limit))
		if status.Code(err) == codes.ResourceExhausted && limit > 1 {
			limit = max(1, limit/8) // the values are large
			continue
		}
		if err != nil {
			return 0, err
		}
		if revision == 0 {
			revision = resp.Header.GetRevision()
		}
		for _, kv := range resp.Kvs {
			if in, ok := s.decode(m, kv); ok && len(entries) < 2*registry.MaxInstances {
				entries[string(kv.GetKey())] = in
			}
		}
		if keys += len(resp.Kvs); !resp.More || len(resp.Kvs) == 0 || keys >= maxKeys {
			break
		}
		from = string(resp.Kvs[len(resp.Kvs)-1].GetKey()) + "\x00"
	}
	if keys >= maxKeys {
		m.Refuse(s.place.prefix(), fmt.Errorf("there are more than %d keys; further keys are not read", maxKeys))
	}
	s.recordRevision(revision)
	m.Replace(entries)
	return revision, nil
}

// get reads keys once, within opTimeout.
func (s *session) get(ctx context.Context, client *clientv3.Client, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	resp, err := client.Get(ctx, key, opts...)
	if err == nil {
		s.conn.answered()
	}
	return resp, err
}

// recordRevision records the revision of a list, and logs it if it is less than the last one.
func (s *session) recordRevision(revision int64) {
	if revision < s.last {
		s.log.Warn(name+": the cluster's revision went back: it was restored, or lost its data", "from", s.last, "to", revision)
	}
	s.last = revision
}

// follow applies the changes after a revision to m. It fails when etcd no longer has
// them, because it was compacted since.
func (s *session) follow(ctx context.Context, client *clientv3.Client, revision int64, m *adapter.Mirror) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	changes := client.Watch(ctx, s.place.prefix(), clientv3.WithPrefix(), clientv3.WithRev(revision+1),
		clientv3.WithProgressNotify(), clientv3.WithFragment())
	for resp := range changes {
		if err := resp.Err(); err != nil {
			return err
		}
		s.conn.answered()
		for _, event := range resp.Events {
			s.apply(m, event)
		}
		s.last = max(s.last, resp.Header.GetRevision())
	}
	return errors.New("etcd ended the watch")
}

func (s *session) apply(m *adapter.Mirror, event *mvccpb.Event) {
	key := string(event.GetKv().GetKey())
	if event.GetType() == mvccpb.DELETE {
		m.Delete(key)
		return
	}
	if in, ok := s.decode(m, event.GetKv()); ok {
		m.Set(key, in)
	}
}

// decode returns the instance under a key. Keys further below the directory are not part
// of the list; an entry that is not an instance is dropped and logged.
func (s *session) decode(m *adapter.Mirror, kv *mvccpb.KeyValue) (tandem.Instance, bool) {
	key := string(kv.GetKey())
	if strings.Contains(strings.TrimPrefix(key, s.place.prefix()), "/") {
		return tandem.Instance{}, false
	}
	in, err := s.place.decode(key, kv.GetValue())
	if err != nil {
		m.Refuse(key, err)
	}
	return in, err == nil
}
