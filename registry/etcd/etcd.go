// Package etcd (stable) is the registry in an etcd cluster, version 3.4 or later.
//
//	r, err := etcd.New("etcd://h1:2379,h2:2379/shop/Cart?ttl=15s")
//	entry, err := r.Register(ctx, instance)   // a server
//	err = r.Watch(ctx, target, update)        // a client of etcd://h1:2379,h2:2379/shop/Cart
//
// # In etcd
//
// The path of a target is a directory, used as it is written: the keys directly
// below it are one list. The instance with the ID tcp://10.0.0.7:8972 of
// etcd://h1:2379/shop/Cart is
//
//	/shop/Cart/tcp:%2F%2F10.0.0.7:8972
//
// which is [url.PathEscape] of its ID. The value is the JSON of [adapter.Encode].
// Keys further below belong to other lists. An entry that is not an instance, or whose
// instance does not belong to its key, is dropped with a line in the log.
//
// The layout of rpcx is supported, too, for teams that migrate: see [WithRPCX].
//
// # Registrations
//
// Each key has a lease of its own; one stream keeps all leases alive. A watch on the
// key reports its deletion, and every third of the time to live the key is read back:
// value and lease must be those that were written. A lost key or lease is created
// again until the registration is closed. A key is only replaced by compare and swap,
// so that of two incarnations the later one stays.
//
// # Watches
//
// A watch reads the list at one revision, with a linearizable read, and follows the
// changes after it. A member that lags behind can't answer such a read, so no list is
// older than one that was delivered before. A cluster that was restored from a backup,
// or lost its data, has an older list: it is delivered, with a line in the log. Its
// Revision still grows, because the watch counts revisions itself. An [adapter.Keeper]
// decides about the instances that a list lost that way.
//
// A Registry uses one connection to each cluster. When it is lost, or no server has
// answered a small read within three seconds, which is sent every three seconds, the
// watches deliver an error and start again.
package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/adapter"
)

// name is the name of this registry in errors and the log.
const name = "etcd registry"

// Registry is a directory of instances in etcd: a Registrar and a Resolver. It is
// safe for concurrent use.
type Registry struct {
	documents // of the own place

	own     *place // nil for a Resolver
	options options
	conns   adapter.Shared[*conn]

	mu      sync.Mutex
	entries map[*registration]struct{} // nil after Close
}

var (
	_ registry.Registrar = (*Registry)(nil)
	_ registry.Resolver  = (*Registry)(nil)
	_ registry.Checker   = (*Registry)(nil)
)

// options are the settings of a Registry.
type options struct {
	ttl      time.Duration
	rpcx     bool
	user     string
	password string
	tls      *tls.Config
	log      *slog.Logger
}

// Option changes a [Registry].
type Option func(*options)

// WithTTL sets how long an instance stays listed after its process was killed, 15 s
// unless given; from 2 s to an hour, in whole seconds. The option ttl of a target
// overrides it.
func WithTTL(d time.Duration) Option { return func(o *options) { o.ttl = d } }

// WithAuth makes the registry log in with a user name and a password. Without [WithTLS]
// both are sent unencrypted.
func WithAuth(user, password string) Option {
	return func(o *options) { o.user, o.password = user, password }
}

// WithTLS makes the registry use TLS with this configuration. etcd's option
// --client-cert-auth requires that it has a client certificate.
func WithTLS(config *tls.Config) Option {
	return func(o *options) { o.tls = config.Clone() }
}

// WithLogger sets the logger for dropped entries, and for registrations that are lost
// and restored; nothing is logged unless given.
func WithLogger(log *slog.Logger) Option {
	return func(o *options) {
		if log != nil {
			o.log = log
		}
	}
}

// New returns the registry in the directory that the target names:
//
//	etcd://host:port,host:port/base/Service?ttl=15s
//
// It connects when it is first used. Options of the target are
//
//	ttl=15s        how long a killed process stays listed, see WithTTL
//	layout=rpcx    the layout of rpcx, see WithRPCX
func New(target string, opts ...Option) (*Registry, error) {
	r := newRegistry(opts)
	t, err := registry.ParseTarget(target)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if r.own, err = r.options.place(t); err != nil {
		return nil, err
	}
	r.documents = documents{r, r.own}
	return r, nil
}

// Resolver returns a resolver for etcd:// targets, which New describes. Its watches
// of one cluster share a connection.
func Resolver(opts ...Option) registry.Resolver { return newRegistry(opts) }

func newRegistry(opts []Option) *Registry {
	r := &Registry{
		options: options{ttl: defaultTTL, log: slog.New(slog.DiscardHandler)},
		entries: make(map[*registration]struct{}),
	}
	for _, opt := range opts {
		opt(&r.options)
	}
	r.documents.registry = r
	r.conns.Open = func(servers string) (*conn, error) { return newConn(servers, r.options), nil }
	r.conns.Close = (*conn).close
	return r
}

// Check fails for a target that names no server or no directory, or has unknown
// options.
func (r *Registry) Check(target registry.Target) error {
	_, err := r.placeOf(target)
	return err
}

// Watch delivers the instances of the directory that the target names, or of the
// registry's own directory when the target names none.
func (r *Registry) Watch(ctx context.Context, target registry.Target, update func(registry.Snapshot)) error {
	p, err := r.placeOf(target)
	if err != nil {
		return err
	}
	c, release, err := r.conns.Acquire(p.servers)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer release()
	s := &session{conn: c, place: p, log: r.options.log}
	return adapter.Follower{Name: name, Session: s.run, Log: r.options.log}.Follow(ctx, update)
}

// placeOf returns the place that a target names, or the registry's own.
func (r *Registry) placeOf(target registry.Target) (*place, error) {
	if target.Address() == "" && r.own != nil {
		return r.own, nil
	}
	return r.options.place(target)
}

// errClosed is the error of Register after Close.
var errClosed = errors.New("the registry is closed")

// Register lists the instance in the registry's directory. Among instances with the
// same ID, the one that started last stays; an earlier one is refused.
func (r *Registry) Register(ctx context.Context, in tandem.Instance) (registry.Registration, error) {
	if r.own == nil {
		return nil, errors.New(name + ": a Resolver has no directory to register in; use New")
	}
	if r.closed() {
		return nil, fmt.Errorf("%s: registering %q: %w", name, in.ID, errClosed)
	}
	c, release, err := r.conns.Acquire(r.own.servers)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	e := newEntry(c, r.own)
	inner, err := adapter.Maintain(ctx, e, in, adapter.Upkeep{
		Name: name, Every: r.own.ttl / 3, Timeout: opTimeout, Lost: e.lost, Log: r.options.log,
	})
	if err != nil {
		release()
		return nil, err
	}
	c.entries.Add(1)
	reg := &registration{Registration: inner, registry: r}
	reg.release = func() { c.entries.Add(-1); release() }
	if !r.add(reg) {
		return nil, errors.Join(fmt.Errorf("%s: registering %q: %w", name, in.ID, errClosed), reg.Close())
	}
	return reg, nil
}

func (r *Registry) closed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.entries == nil
}

// add records a registration for Close. It returns false after Close.
func (r *Registry) add(reg *registration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.entries == nil {
		return false
	}
	r.entries[reg] = struct{}{}
	return true
}

// Close closes the open registrations. It does not end watches: their contexts do. The
// connection is closed when no registration and no watch uses it. Close returns within
// seconds, also without a server.
func (r *Registry) Close() error {
	r.mu.Lock()
	entries := r.entries
	r.entries = nil
	r.mu.Unlock()
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		errs []error
	)
	for reg := range entries {
		wg.Go(func() {
			if err := reg.Close(); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// registration is a Registration that releases its connection when it is closed.
type registration struct {
	registry.Registration

	registry *Registry
	once     sync.Once
	release  func()
}

func (reg *registration) Close() error {
	err := reg.Registration.Close()
	reg.once.Do(func() {
		reg.registry.mu.Lock()
		delete(reg.registry.entries, reg)
		reg.registry.mu.Unlock()
		reg.release()
	})
	return err
}
