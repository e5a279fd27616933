// Package nacos lists servers in Nacos, https://nacos.io, and finds them there.
//
//	r, err := nacos.New("nacos://h1:8848,h2:8848/shop/Orders")
//	srv := server.New(server.WithRegistrar(r, instance))
//
//	c, err := client.Dial("nacos://h1:8848,h2:8848/shop/Orders",
//		client.WithResolver("nacos", nacos.Resolver()))
//
// # Targets
//
// nacos://servers/group/Service, or /Service in Nacos's DEFAULT_GROUP. With the
// scheme nacos+https, or with [WithTLS], the servers are spoken to over TLS.
// Options:
//
//	namespace=id   Nacos's namespace; "public" unless given
//	cluster=name   list in this cluster, "DEFAULT" unless given; find this one only
//	context=path   what stands before /v1 in the servers' paths; "nacos" unless given
//	ttl=15s        how long an instance stays listed without a sign of life, 1s to 10m
//	poll=2s        time between two looks at a list, 10ms to 1m
//
// # Layout
//
// An instance is one of Nacos's ephemeral instances, under the host and port of its
// first endpoint that has both; one without is refused. Its metadata are the
// instance as JSON under the key "tandem", and Nacos's own keys that carry the time
// to live. From version 2.3 on Nacos takes 1,024 characters of metadata, its keys and
// ours included, unless it is told otherwise: 900 are left for the JSON.
//
// To Nacos an address is an instance: two servers with the same address can't be
// listed in one service, whatever their IDs. The one that started later counts.
//
// The weight is Nacos's, on our scale: 100 for one that names none. A weight that
// somebody sets in Nacos's console, or an instance that is disabled there, is what
// counts for every client, whatever the server lists, until it is set back there, or
// until the instance has been gone for a minute: then Nacos forgets. A fraction is
// rounded up, and no weight is no calls.
//
// An edit in the console also keeps the other metadata as they were. The server that
// they belong to notices at its second sign of life after that, and takes the key
// "tandem" out of what Nacos keeps; nothing else of the edit is touched.
//
// # Why HTTP, and not the SDK
//
// Nacos's SDK for Go brings 54 modules, for a registry that needs six requests:
// register, beat, look at one, list, deregister, and log in. They are Nacos's open API,
// version 1, which servers 1.x and 2.x speak. What the SDK has beyond them is the push over
// gRPC, and it would have been the only reason. Over HTTP a list must be asked for
// again and again, so a change is seen after poll at the latest, and a thousand
// clients with a list each are 500 requests a second in place of none. Who has that
// many raises poll, or uses another registry.
package nacos

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
)

// name is how errors and the log call the registry.
const name = "nacos registry"

// Option changes a [Registry] or a [Resolver].
type Option func(*options)

type options struct {
	username, password string
	tls                *tls.Config
	ttl, poll          time.Duration
	log                *slog.Logger
}

func collect(opts []Option) options {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	o.log = cmp.Or(o.log, slog.New(slog.DiscardHandler))
	return o
}

// WithAuth logs in to Nacos. The token that it gives is renewed before it ends, and
// when Nacos refuses it. Without TLS the password crosses the network in the clear.
func WithAuth(username, password string) Option {
	return func(o *options) { o.username, o.password = username, password }
}

// WithTLS speaks to the servers over TLS. The config is copied; nil is what the
// scheme nacos+https alone does: the system's roots are trusted.
func WithTLS(config *tls.Config) Option {
	return func(o *options) {
		if o.tls = config.Clone(); o.tls == nil {
			o.tls = &tls.Config{MinVersion: tls.VersionTLS12}
		}
	}
}

// WithTTL is how long an instance stays listed when its server has died, 15 s
// unless given; Nacos looks every 5 s, so it may take that much longer. It must be
// from 1 s to 10 min. The target's ttl goes before it.
func WithTTL(d time.Duration) Option { return func(o *options) { o.ttl = d } }

// WithPoll is the time between two looks at a list, 2 s unless given. It must be
// from 10 ms to 1 min. The target's poll goes before it.
func WithPoll(d time.Duration) Option { return func(o *options) { o.poll = d } }

// WithLogger gets a line when a registration is lost, and restored, and for each
// entry of a list that can't be right. Nothing is logged without.
func WithLogger(l *slog.Logger) Option { return func(o *options) { o.log = l } }

// Registry lists instances in one service of Nacos, and finds those of any. It is
// safe for concurrent use.
type Registry struct {
	*resolver
	place   place
	servers *servers
	closed  atomic.Bool
}

// New returns the registry for the service that the target names. It asks nobody
// yet; an error is the target's or an option's.
func New(target string, opts ...Option) (*Registry, error) {
	t, err := registry.ParseTarget(target)
	if err != nil {
		return nil, err
	}
	r := newResolver(opts)
	at, err := r.parse(t)
	if err != nil {
		return nil, err
	}
	return &Registry{resolver: r, place: at, servers: r.dial(at.servers)}, nil
}

// Register lists the instance and keeps it listed; see [registry.Registrar]. What
// its Update lists is seen by others about half a second later, and 10 s later (two
// thirds of the ttl) if the instance has been edited in Nacos's console.
func (r *Registry) Register(ctx context.Context, in tandem.Instance) (registry.Registration, error) {
	if r.closed.Load() {
		return nil, errors.New(name + ": it is closed")
	}
	e := &entry{servers: r.servers, place: r.place}
	return registry.Maintain(ctx, e, in, registry.Upkeep{Name: name, Every: r.place.ttl / 3, Log: r.log})
}

// Close releases the connections. Close the registrations first: they would make
// new ones.
func (r *Registry) Close() error {
	r.closed.Store(true)
	r.servers.close()
	return nil
}

// Resolver returns a resolver for the targets of this package, for
// [github.com/tandem-rpc/tandem/client.WithResolver]. Its watches share
// connections, at most eight to a server.
func Resolver(opts ...Option) registry.Resolver { return newResolver(opts) }

// resolver is a Resolver and a Checker.
type resolver struct {
	options
	shared registry.Shared[*servers]
}

func newResolver(opts []Option) *resolver {
	r := &resolver{options: collect(opts)}
	r.shared.Open = func(addresses string) (*servers, error) { return r.dial(addresses), nil }
	r.shared.Close = (*servers).close
	return r
}

// Check reports whether the target can work.
func (r *resolver) Check(target registry.Target) error {
	_, err := r.parse(target)
	return err
}

// Watch delivers the list of the target's service; see [registry.Resolver].
func (r *resolver) Watch(ctx context.Context, target registry.Target, update func(registry.Snapshot)) error {
	at, err := r.parse(target)
	if err != nil {
		return err
	}
	s, release, err := r.shared.Acquire(at.servers)
	if err != nil {
		return err
	}
	defer release()
	w := watch{servers: s, place: at}
	return registry.Follower{Name: name, Session: w.session, Log: r.log}.Follow(ctx, update)
}
