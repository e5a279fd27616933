// Package redis is the registry in a Redis server, 6.0 or later, alone, with
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
//	ttl=15s        how long an instance is listed after its process was last heard
//	               of; 15 s unless given, at least 1 s
//	db=2           the number of the database; 0 unless given, and always in a Cluster
//	master=name    ask Sentinels for the master of that name
//	cluster=true   a Cluster, although only one node is named
//
// Passwords are never part of a target: see [WithAuth] and [WithTLS].
//
// # Layout
//
// A list is two keys and a channel, here for the path /prod/Arith:
//
//	tandem:{prod/Arith}          a hash: the instance's ID → who wrote it, a space,
//	                             and the instance as JSON
//	tandem:{prod/Arith}:until    a sorted set: the ID, scored with the time when it
//	                             goes, in milliseconds since 1970 by the server's clock
//	tandem:{prod/Arith}          a channel; each change publishes the ID there
//
// Not a key for each instance: so the list is read in one step that can't fall
// between two changes, a renewal is one small write that leaves the instance's
// JSON alone, and everything is in one slot of a Cluster. Both keys expire with
// the last of their instances, so what nobody uses leaves nothing behind. All
// times are taken from the clock of the Redis server, and handed out as
// durations: clocks are never compared.
//
// Every write is a script that looks before it writes: an instance that started
// later is never replaced, and nobody removes what somebody else has listed.
//
// A document with the key /shop/policies/Cart, which is a policy for example, is
//
//	tandem:{shop/policies/Cart}:document        its text, and the channel of its changes
//	tandem:{shop/policies/Cart}:applied         a hash: who reports → the report
//	tandem:{shop/policies/Cart}:applied:until   a sorted set: who reports, scored with
//	                                            the time when the report goes
//
// # Watching
//
// All watches of a [Registry] on one server share one connection that listens to
// their channels. A watch reads the whole list when it begins, at each
// announcement (at most ten times a second), and whenever an instance is due to
// go or a time to live is over, whichever is first. So an instance whose process
// died is off the list a moment after its time to live, without an event; keyspace
// notifications are not needed.
//
// While the server can't be reached, a watch delivers errors. When it is back,
// what was listed before stays listed for one time to live: an outage longer than
// that makes Redis forget every instance, although their processes live and will
// renew them.
//
// go-redis, which this is built on, tells a logger of the whole process, on
// standard error, about connections that fail, about ten lines an outage; its
// SetLogger changes that.
//
// Redis must not evict these keys: use the policy noeviction. What is evicted, or
// deleted, is listed again within a third of the time to live.
package redis

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
)

const name = "redis registry"

// Registry is the list that a target names: a Registrar and a Resolver. It is
// safe for concurrent use.
type Registry struct {
	options options
	own     *place // nil for one that only resolves
	conn    *connection
	release func() // gives back conn
	shared  registry.Shared[*connection]
}

var (
	_ registry.Registrar = (*Registry)(nil)
	_ registry.Resolver  = (*Registry)(nil)
	_ registry.Checker   = (*Registry)(nil)
)

// New returns the registry that the target names. It does not wait for the
// server; it fails for a target that can never work.
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
	r.own = &own
	r.conn, r.release, err = r.shared.Acquire(own.server())
	return r, err
}

// Resolver returns a resolver for redis:// targets. It connects to a server for as
// long as there is a watch of one of its lists.
func Resolver(opts ...Option) registry.Resolver { return newRegistry(opts) }

func newRegistry(opts []Option) *Registry {
	r := &Registry{options: defaults()}
	for _, o := range opts {
		o(&r.options)
	}
	r.shared.Open = r.options.connect
	r.shared.Close = (*connection).close
	return r
}

// Close releases the connection to the server of a Registry that [New] has made.
// Registrations are closed before it. It must be called once.
func (r *Registry) Close() error {
	if r.release != nil {
		r.release()
	}
	return nil
}

// Register lists the instance and keeps it listed. It replaces an instance of the
// same ID unless that has started later.
func (r *Registry) Register(ctx context.Context, in tandem.Instance) (registry.Registration, error) {
	if r.own == nil {
		return nil, errors.New(name + ": there is no list to register in; use New with a target")
	}
	ttl := r.options.ttlOf(*r.own)
	return registry.Maintain(ctx, newEntry(r.conn, r.own.list, ttl), in, registry.Upkeep{
		Name:    name,
		Every:   ttl / 3,
		Timeout: min(patience, ttl/2),
		Log:     r.options.log,
	})
}

// Watch delivers the list that the target names, or the registry's own when it
// names none.
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
	follower := registry.Follower{
		Name: name, Session: w.session, Log: r.options.log,
		Relist: time.Hour, // a session reads the whole list all the time
	}
	return follower.Follow(ctx, update)
}

// Check fails for a target that can never work.
func (r *Registry) Check(target registry.Target) error {
	_, err := r.placeOf(target)
	return err
}

// placeOf returns what a target names.
func (r *Registry) placeOf(target registry.Target) (place, error) {
	if target.Address() == "" && r.own != nil {
		return *r.own, nil
	}
	return parse(target)
}
