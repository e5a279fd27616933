// Package redis (stable) is the registry in a Redis server, 6.0 or later, alone, with
// Sentinels, or as a Redis Cluster.
//
//	r, err := redis.New("redis://10.0.0.1:6379/prod/Arith", redis.WithAuth("arith", password))
//	entry, err := r.Register(ctx, instance)   // a server
//	c, err := client.Dial("redis://10.0.0.1:6379/prod/Arith",
//		client.WithResolver("redis", redis.Resolver(redis.WithAuth("arith", password))))
//
// # Targets
//
//	redis://host:port/base/Service              one server
//	redis://h1:port,h2:port/base/Service        a Redis Cluster, of which these are some nodes
//	redis://h1:port,h2:port/base/Service?master=name   these are Sentinels, name is their master
//
// A port that is missing is 6379, of a Sentinel 26379. The path names one list.
// Options are
//
//	ttl=15s        how long an instance is listed after its process has last renewed
//	               it; 15 s by default, at least 1 s
//	db=2           the number of the database; 0 by default, and always in a Cluster
//	master=name    ask Sentinels for the master of that name
//	cluster=true   a Cluster, although only one node is named
//
// Passwords are never part of a target: see [WithAuth] and [WithTLS].
//
// # Layout
//
// A list is two keys and a channel, here for the path /prod/Arith:
//
//	tandem:{prod/Arith}          a hash: the instance's ID → its writer, a space, and
//	                             the instance as JSON
//	tandem:{prod/Arith}:until    a sorted set: the ID, scored with the time when it
//	                             expires, in milliseconds since 1970 by the server's clock
//	tandem:{prod/Arith}          a channel; each change publishes the ID there
//
// There is no key for each instance. So the list is read in one atomic step, a renewal is
// one small write that leaves the instance's JSON alone, and everything is in one slot of
// a Cluster. Both keys expire with the last of their instances, so an unused list leaves
// nothing behind. All times are read from the clock of the Redis server and returned as
// durations: clocks are never compared.
//
// Every write is a script that checks before it writes: an instance that started later is
// never replaced, and no process removes an entry of another one.
//
// A document with the key /shop/policies/Cart, which is a policy for example, is
//
//	tandem:{shop/policies/Cart}:document        its text, and the channel of its changes
//	tandem:{shop/policies/Cart}:applied         a hash: the reporter → its report
//	tandem:{shop/policies/Cart}:applied:until   a sorted set: the reporter, scored with
//	                                            the time when its report expires
//
// [registry.Directory] finds lists by SCAN of all keys of the database.
//
// # Watching
//
// All watches of a [Registry] on one server share one connection that is subscribed to
// their channels. A watch reads the whole list when it begins, at each announcement (at
// most ten times a second), when the next instance is due to expire, and at least once in
// a time to live. So an instance whose process has ended leaves the list a moment after
// its time to live, without an event; keyspace notifications are not needed.
//
// While the server can't be reached, a watch delivers errors. When it is back, the
// instances that were listed before stay listed for one time to live: in an outage longer
// than that, every instance expires in Redis, although its process runs and will renew it.
//
// The library go-redis logs connections that fail on standard error, about ten lines an
// outage. Its SetLogger changes that for the whole process.
//
// Redis must not evict these keys: use the policy noeviction. An instance that is evicted
// or deleted is listed again within a third of the time to live.
package redis

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/adapter"
)

const name = "redis registry"

// Registry is the list that a target names: a Registrar and a Resolver. It is
// safe for concurrent use.
type Registry struct {
	documents // of the own place

	options options
	own     *place // nil for a Resolver
	conn    *connection
	release func() // releases conn
	shared  adapter.Shared[*connection]
}

var (
	_ registry.Registrar = (*Registry)(nil)
	_ registry.Resolver  = (*Registry)(nil)
	_ registry.Checker   = (*Registry)(nil)
)

// New returns the registry that the target names. It does not wait for the server. It
// fails if the target can never work.
func New(target string, opts ...Option) (*Registry, error) {
	t, err := registry.ParseTarget(target)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	r := newRegistry(opts)
	own, err := parse(t)
	if err != nil {
		return nil, err
	}
	r.own, r.documents.place = &own, &own
	r.conn, r.release, err = r.shared.Acquire(own.server())
	return r, err
}

// Resolver returns a resolver for redis:// targets. It is connected to a server while one of
// the server's lists is watched.
func Resolver(opts ...Option) registry.Resolver { return newRegistry(opts) }

func newRegistry(opts []Option) *Registry {
	r := &Registry{options: defaults()}
	for _, o := range opts {
		o(&r.options)
	}
	r.documents.registry = r
	r.shared.Open = r.options.connect
	r.shared.Close = (*connection).close
	return r
}

// Close releases the connection to the server of a Registry that [New] has made. Close the
// registrations before it. It must be called once.
func (r *Registry) Close() error {
	if r.release != nil {
		r.release()
	}
	return nil
}

// Register lists the instance and keeps it listed. It replaces an instance of the same ID,
// unless that one started later.
func (r *Registry) Register(ctx context.Context, in tandem.Instance) (registry.Registration, error) {
	if r.own == nil {
		return nil, errors.New(name + ": there is no list to register in; use New with a target")
	}
	ttl := r.options.ttlOf(*r.own)
	return adapter.Maintain(ctx, newEntry(r.conn, r.own.list, ttl), in, adapter.Upkeep{
		Name:    name,
		Every:   ttl / 3,
		Timeout: min(patience, ttl/2),
		Log:     r.options.log,
	})
}

// Watch delivers the list that the target names, or the registry's own list if the target
// is empty.
func (r *Registry) Watch(ctx context.Context, target registry.Target, update func(registry.Snapshot)) error {
	at, err := r.placeOf(target)
	if err != nil {
		return err
	}
	conn, release, err := r.shared.Acquire(at.server())
	if err != nil {
		return err
	}
	defer release()
	w := &watch{conn: conn, list: at.list, ttl: r.options.ttlOf(at)}
	follower := adapter.Follower{
		Name: name, Session: w.session, Log: r.options.log,
		Relist: time.Hour, // a session rereads the whole list anyway
	}
	return follower.Follow(ctx, update)
}

// Check fails for a target that can never work.
func (r *Registry) Check(target registry.Target) error {
	_, err := r.placeOf(target)
	return err
}

// placeOf returns the parsed target, or the registry's own place if the target is empty.
func (r *Registry) placeOf(target registry.Target) (place, error) {
	if target.Address() == "" && r.own != nil {
		return *r.own, nil
	}
	return parse(target)
}
