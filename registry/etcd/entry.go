package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/adapter"
)

// entry is one key and its lease: the adapter.Entry of one registration.
type entry struct {
	conn  *conn
	place *place
	lost  chan struct{} // has a token when a Check should be made at once

	key        string           // "" before the first Put
	in         tandem.Instance  // the instance as it is listed
	value      []byte           // the encoding of in; nil before the first Put that succeeded
	lease      clientv3.LeaseID // NoLease if there is none
	cancelHold func()           // ends the goroutine of hold; nil before the first
	holdEnded  chan struct{}    // closed when that goroutine has ended; nil before the first
}

func newEntry(c *conn, p *place) *entry {
	return &entry{conn: c, place: p, lost: make(chan struct{}, 1)}
}

// Put writes the key with compare and swap, unless it holds the value under our lease
// already. It returns ErrSuperseded for a key whose instance must not be replaced.
func (e *entry) Put(ctx context.Context, in tandem.Instance) error {
	ctx, cancel := context.WithTimeout(ctx, e.patience())
	defer cancel()
	value, err := e.prepare(&in)
	if err != nil {
		return err
	}
	client, err := e.client(ctx)
	if err != nil {
		return err
	}
	now, err := e.read(ctx, client)
	for tries := 0; err == nil && tries <= maxSwaps; tries++ {
		switch {
		case now.written || e.isOurs(now.seen, value):
			e.in, e.value = in, value
			e.hold(client, now.revision)
			return nil
		case e.yields(now.seen, &in):
			return registry.ErrSuperseded
		}
		if err = e.grant(ctx, client); err == nil {
			now, err = e.swap(ctx, client, now.seen, value)
		}
	}
	if err != nil {
		return e.conn.explain(client, err)
	}
	return fmt.Errorf("writing the key %q: other clients write it at the same time", e.key)
}

// maxSwaps is how often Put tries again after another client has written the key in
// between.
const maxSwaps = 4

// patience returns the timeout of a Put. The first one may take longer, because no
// instance is listed yet.
func (e *entry) patience() time.Duration {
	if e.value == nil {
		return firstTimeout
	}
	return opTimeout
}

// prepare returns the value for the instance, and sets the key the first time.
func (e *entry) prepare(in *tandem.Instance) ([]byte, error) {
	rest, err := e.place.layout.key(in)
	if err != nil {
		return nil, err
	}
	key := e.place.prefix() + rest
	switch e.key {
	case "":
		e.key = key // never changed again, because guard reads it concurrently
	case key:
	default:
		return nil, fmt.Errorf("the instance would move from the key %q to %q: close this registration and register again", e.key, key)
	}
	return e.place.layout.encode(in)
}

// client returns the client. Once the instance has been listed, it fails at once when
// no server can be reached: registrations that wait for a server would all write at
// the same time when it is back.
func (e *entry) client(ctx context.Context) (*clientv3.Client, error) {
	client, err := e.conn.open(ctx)
	if err != nil || e.value == nil {
		return client, err
	}
	return client, down(ctx, client)
}

// grant makes a lease if there is none, or if the current one has ended. It asks for
// the current one first, because a write under an ended lease costs the cluster as
// much as any other write.
func (e *entry) grant(ctx context.Context, client *clientv3.Client) error {
	if e.lease != clientv3.NoLease {
		left, err := client.TimeToLive(ctx, e.lease)
		if err != nil || left.TTL > 0 {
			return err
		}
		e.endHold()
		e.lease = clientv3.NoLease
	}
	resp, err := client.Grant(ctx, int64(e.place.ttl/time.Second))
	if err != nil {
		return err
	}
	e.lease = resp.ID
	return nil
}

// state is the result of reading or writing the key.
type state struct {
	written  bool             // the write succeeded
	seen     *mvccpb.KeyValue // if not written: the key as it was read, nil for absent
	revision int64            // revision of the cluster
}

func (e *entry) read(ctx context.Context, client *clientv3.Client) (state, error) {
	resp, err := client.Get(ctx, e.key)
	if err != nil {
		return state{}, err
	}
	e.conn.answered()
	return state{seen: firstOrNil(resp.Kvs), revision: resp.Header.GetRevision()}, nil
}

// swap writes the value if the key is still as in seen, which is nil for an absent key.
func (e *entry) swap(ctx context.Context, client *clientv3.Client, seen *mvccpb.KeyValue, value []byte) (state, error) {
	put := clientv3.OpPut(e.key, string(value), clientv3.WithLease(e.lease))
	resp, err := client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(e.key), "=", seen.GetModRevision())).
		Then(put).
		Else(clientv3.OpGet(e.key)).
		Commit()
	if err != nil {
		return state{}, err
	}
	e.conn.answered()
	now := state{written: resp.Succeeded, revision: resp.Header.GetRevision()}
	if !resp.Succeeded {
		now.seen = firstOrNil(resp.Responses[0].GetResponseRange().GetKvs())
	}
	return now, nil
}

// firstOrNil returns the one key that was read, or nil if there is none.
func firstOrNil(kvs []*mvccpb.KeyValue) *mvccpb.KeyValue {
	if len(kvs) == 0 {
		return nil
	}
	return kvs[0]
}

// isOurs reports whether the key holds the value under our lease.
func (e *entry) isOurs(kv *mvccpb.KeyValue, value []byte) bool {
	return kv != nil && clientv3.LeaseID(kv.GetLease()) == e.lease && bytes.Equal(kv.GetValue(), value)
}

// yields reports whether the key holds an instance that must not be replaced. An earlier
// version that was written under our lease may be replaced.
func (e *entry) yields(kv *mvccpb.KeyValue, in *tandem.Instance) bool {
	if kv == nil || clientv3.LeaseID(kv.GetLease()) == e.lease {
		return false
	}
	listed, err := e.place.decode(string(kv.GetKey()), kv.GetValue())
	return err == nil && adapter.Supersedes(&listed, in)
}

// Check reads the key back. It does not check the lease, because the key is deleted
// when its lease ends.
func (e *entry) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	client, err := e.client(ctx)
	if err != nil {
		return err
	}
	now, err := e.read(ctx, client)
	switch {
	case err != nil:
		return e.conn.explain(client, err)
	case e.isOurs(now.seen, e.value):
		e.hold(client, now.revision)
		return nil
	case now.seen == nil:
		return errors.New("its key is gone")
	case e.yields(now.seen, &e.in):
		return registry.ErrSuperseded
	}
	return errors.New("its key holds something else")
}

// Delete revokes the lease, and with it the key, if this entry was the last to write
// it.
func (e *entry) Delete(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	e.endHold()
	if e.lease == clientv3.NoLease {
		return nil
	}
	client, err := e.conn.open(ctx)
	if err != nil {
		return err
	}
	client.ActiveConnection().ResetConnectBackoff() // there is no time to wait for the next attempt
	if _, err := client.Revoke(ctx, e.lease); err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return e.conn.explain(client, err)
	}
	e.lease = clientv3.NoLease
	return nil
}

// hold starts a goroutine that keeps the lease alive and watches for a deletion of the
// key after the revision, unless it is running already.
func (e *entry) hold(client *clientv3.Client, revision int64) {
	if e.holdEnded != nil {
		select {
		case <-e.holdEnded:
		default:
			return
		}
	}
	e.endHold()
	ctx, cancel := context.WithCancel(e.conn.ctx)
	holdEnded := make(chan struct{})
	e.cancelHold, e.holdEnded = cancel, holdEnded
	alive, _ := client.KeepAlive(ctx, e.lease) // with an error, alive is closed
	go func() {
		defer close(holdEnded)
		defer cancel()
		e.guard(ctx, client, alive, revision)
	}()
}

// endHold ends the goroutine of hold and waits for it.
func (e *entry) endHold() {
	if e.cancelHold != nil {
		e.cancelHold()
		<-e.holdEnded
	}
}

// guard hints when the key is deleted or its lease has ended, and returns when the
// lease has ended or the watch has failed; the next Check then starts hold again.
func (e *entry) guard(ctx context.Context, client *clientv3.Client, alive <-chan *clientv3.LeaseKeepAliveResponse, revision int64) {
	deletions := client.Watch(clientv3.WithRequireLeader(ctx), e.key, clientv3.WithRev(revision+1),
		clientv3.WithFilterPut(), clientv3.WithProgressNotify())
	var due <-chan time.Time
	ended := false // the lease has ended; this is often noticed before the key's deletion
	for {
		select {
		case _, ok := <-alive:
			if ok {
				continue
			}
			alive, ended = nil, true
		case resp, ok := <-deletions:
			if !ok || resp.Err() != nil {
				e.hint(due != nil)
				return
			}
			if len(resp.Events) == 0 {
				continue
			}
		case <-due:
			e.hint(true)
			if ended {
				return
			}
			due = nil
			continue
		case <-ctx.Done():
			return
		}
		if due == nil {
			due = time.After(e.conn.spread())
		}
	}
}

// hint asks for a Check, if there is reason to.
func (e *entry) hint(reason bool) {
	if !reason {
		return
	}
	select {
	case e.lost <- struct{}{}:
	default:
	}
}

// spread returns a random time to wait before the Check of a deleted key: at most half
// a second, and 2 ms more for each registration, because the keys of all of them may
// have been deleted together.
func (c *conn) spread() time.Duration {
	return rand.N(500*time.Millisecond + 2*time.Millisecond*time.Duration(c.entries.Load()))
}
