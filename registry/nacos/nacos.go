// Package nacos (experimental) lists servers in Nacos, https://nacos.io, and finds them there.
//
//	r, err := nacos.New("nacos://h1:8848,h2:8848/shop/Orders")
//	srv := server.New(server.WithRegistrar(r, instance))
//
//	c, err := client.Dial("nacos://h1:8848,h2:8848/shop/Orders",
//		client.WithResolver("nacos", nacos.Resolver()))
//
// # Targets
//
// nacos://servers/group/Service, or /Service in Nacos's DEFAULT_GROUP. The scheme
// nacos+https, or [WithTLS], makes connections use TLS. Options:
//
//	namespace=id   Nacos's namespace; "public" by default
//	cluster=name   the cluster to register in, "DEFAULT" by default; watches then list only
//	               this cluster, and all clusters by default
//	context=path   the prefix before /v1 in the servers' paths; "nacos" by default
//	api=grpc       use Nacos's gRPC, as its own clients of version 2 and 3 do; "http" by default
//	ttl=15s        how long an instance stays listed without a beat, 1s to 10m
//	poll=2s        interval between two reads of a list, 10ms to 1m
//
// # Layout
//
// An instance is one of Nacos's ephemeral instances, with the host and port of its first
// endpoint that has both; without one it is refused. Its metadata are the instance as
// JSON under the key "tandem", and Nacos's own keys with the time to live. From version 2.3
// on Nacos accepts 1,024 characters of metadata by default, its keys and ours included: 900
// are left for the JSON.
//
// Nacos identifies an instance by its address: two servers with the same address can't be
// listed in one service, even with different IDs. The one that started later is listed.
//
// The weight is stored as Nacos's weight: 100 for an instance without one. A weight that is
// set in Nacos's console, or an instance that is disabled there, applies to every client and
// takes precedence over the server's own weight, until it is set back there, or until the
// instance has been gone for a minute: then Nacos forgets the edit. A fraction is rounded up,
// and an instance of weight 0 gets no calls.
//
// An edit in the console also freezes the other metadata. The server that they belong to
// notices that at its second beat after the edit, and removes the key "tandem" from the
// edit; the rest of the edit stays.
//
// # HTTP or gRPC
//
// Over HTTP, which servers 1.x, 2.x and early 3.x have, a list is polled: a change is seen after
// poll at the latest, and a thousand clients with a list each make 500 requests a second. With
// api=grpc, which servers from 2.0 on have at 1000 above the port of the target, Nacos sends
// changes. An instance then lasts as long as its connection, of which each registration and each
// watch has one; ttl is three times the interval at which a registration is checked. Documents,
// Lists and logins use HTTP all the same. gRPC was tried with a server 2.2.4, and with none of 3.x.
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
	"github.com/tandem-rpc/tandem/registry/adapter"
)

// name is the registry's name in errors and the log.
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

// WithAuth makes the registry log in to Nacos. The token is renewed before it expires, and
// when Nacos refuses it. Without TLS the password is sent unencrypted.
func WithAuth(username, password string) Option {
	return func(o *options) { o.username, o.password = username, password }
}

// WithTLS makes connections use TLS. The config is copied. A nil config, like the scheme
// nacos+https without WithTLS, trusts the system's roots.
func WithTLS(config *tls.Config) Option {
	return func(o *options) {
		if o.tls = config.Clone(); o.tls == nil {
			o.tls = &tls.Config{MinVersion: tls.VersionTLS12}
		}
	}
}

// WithTTL sets how long an instance stays listed after the last beat of its server: 15 s by
// default, from 1 s to 10 min. Nacos checks every 5 s, so it may take that much longer. A
// target's ttl takes precedence.
func WithTTL(d time.Duration) Option { return func(o *options) { o.ttl = d } }

// WithPoll sets the interval between two reads of a list: 2 s by default, from 10 ms to
// 1 min. A target's poll takes precedence.
func WithPoll(d time.Duration) Option { return func(o *options) { o.poll = d } }

// WithLogger sets the log for registrations that are lost or restored, and for invalid
// entries of a list. By default, they are not logged.
func WithLogger(l *slog.Logger) Option { return func(o *options) { o.log = l } }

// Registry lists instances in one service of Nacos, and finds those of any. It is
// safe for concurrent use.
type Registry struct {
	*resolver
	documents // of the own namespace

	place   place
	servers *servers
	closed  atomic.Bool
}

// New returns the registry for the service that the target names. It does not connect yet. It
// fails if the target or an option is invalid.
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
	s := r.dial(at.servers)
	return &Registry{resolver: r, documents: documents{r, at, s}, place: at, servers: s}, nil
}

// Register lists the instance and keeps it listed; see [registry.Registrar]. An Update is
// visible to clients about half a second later, or 10 s later (two thirds of the ttl) if the
// instance has been edited in Nacos's console.
func (r *Registry) Register(ctx context.Context, in tandem.Instance) (registry.Registration, error) {
	if r.closed.Load() {
		return nil, errors.New(name + ": it is closed")
	}
	if r.place.grpc {
		e := &grpcEntry{servers: r.servers, place: r.place, lost: make(chan struct{}, 1)}
		return adapter.Maintain(ctx, e, in, adapter.Upkeep{Name: name, Every: r.place.ttl / 3, Lost: e.lost, Log: r.log})
	}
	e := &entry{servers: r.servers, place: r.place}
	return adapter.Maintain(ctx, e, in, adapter.Upkeep{Name: name, Every: r.place.ttl / 3, Log: r.log})
}

// Close releases the connections. Close the registrations first: they would open new
// connections.
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
	shared adapter.Shared[*servers]
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
	if at.grpc {
		w := grpcWatch{servers: s, place: at}
		return adapter.Follower{Name: name, Session: w.session, Relist: grpcRelist, Log: r.log}.Follow(ctx, update)
	}
	w := watch{servers: s, place: at}
	return adapter.Follower{Name: name, Session: w.session, Log: r.log}.Follow(ctx, update)
}
