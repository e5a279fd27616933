// Package zookeeper (stable) is the registry in an Apache ZooKeeper ensemble, 3.5 or later.
//
//	r, err := zookeeper.New("zookeeper://h1:2181,h2:2181/tandem/Arith")
//	entry, err := r.Register(ctx, instance) // a server
//
//	client.Dial("zookeeper://h1:2181,h2:2181/tandem/Arith",
//		client.WithResolver("zookeeper", zookeeper.Resolver())) // a client
//
// # Targets
//
// A target names the servers, port 2181 unless given, and the directory whose
// nodes are one list. Options are
//
//	ttl=15s        how long an instance stays listed when its process is gone: the
//	               session's timeout, 15 s unless given, 1 s to 10 min; the ensemble
//	               has limits of its own, 2 and 20 of its ticks
//	acl=read       access to the nodes: open, the default, allows every client
//	               everything; read allows every client to read, and only the
//	               creator's user to write; creator allows only that user anything.
//	               The latter two need WithAuth
//	layout=dubbo   the layout of nodes: tandem, the default, dubbo or rpcx
//
// # Layout
//
// The directory and those above it are persistent nodes, made when they are
// missing. Each instance is an ephemeral node below, named by its ID with
// percent-escapes, that holds it as JSON (see [adapter.Encode]).
//
// With layout=dubbo, the target's path is /dubbo/<interface>, and an instance is an
// ephemeral node without data below /dubbo/<interface>/providers, named by its
// escaped URL, as consumers of Dubbo 2.7 and 3 expect. With layout=rpcx it is a node
// transport@host:port with its metadata as a query, as in rpcx. Both hold fewer fields
// of an instance than the layout tandem.
//
// # Sessions
//
// All registrations and watches that one [Registry] has with the same servers
// share one session. When it expires, every instance is listed again in the next.
// An instance that an earlier process has left under the same ID is taken over,
// unless it started later than the new one.
package zookeeper

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/adapter"
)

// name begins errors and lines in the log.
const name = "zookeeper registry"

// Registry lists instances in a ZooKeeper ensemble and finds them there. It is safe
// for concurrent use.
type Registry struct {
	documents // of the own target

	target  registry.Target // target of New; zero for a resolver
	options options
	links   adapter.Shared[*link]

	mu      sync.Mutex
	closed  bool
	link    *link                  // link of all registrations; nil before the first
	release func()                 // releases link
	open    map[io.Closer]struct{} // registrations and reports, which Close ends
}

var (
	_ registry.Registrar = (*Registry)(nil)
	_ registry.Resolver  = (*Registry)(nil)
	_ registry.Checker   = (*Registry)(nil)
)

// options is what an Option changes.
type options struct {
	ttl  time.Duration
	user string // user:password, for digest authentication; "" for none
	tls  *tls.Config
	log  *slog.Logger
}

// Option changes a [Registry].
type Option func(*options)

// WithTTL sets the session timeout of targets without the option ttl: 1 s to 10 min,
// 15 s by default.
func WithTTL(d time.Duration) Option { return func(o *options) { o.ttl = d } }

// WithAuth authenticates every session as a user, by ZooKeeper's digest scheme,
// which sends the password unencrypted: use it with [WithTLS].
func WithAuth(user, password string) Option {
	return func(o *options) { o.user = user + ":" + password }
}

// WithTLS connects by TLS, to the port that the servers have as secureClientPort.
// ServerName is the host of the target where the config has none.
func WithTLS(config *tls.Config) Option { return func(o *options) { o.tls = config } }

// WithLogger sets the logger for nodes that are not instances, expired sessions and
// registrations that fail. By default nothing is logged; nil changes nothing.
func WithLogger(log *slog.Logger) Option {
	return func(o *options) {
		if log != nil {
			o.log = log
		}
	}
}

// New returns the registry in the directory that the target names. It connects
// when it is first used. Close must be called when it isn't needed any more.
func New(target string, opts ...Option) (*Registry, error) {
	t, err := registry.ParseTarget(target)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	r := newRegistry(opts)
	r.target = t
	r.documents.target = t
	if err := r.Check(t); err != nil {
		return nil, err
	}
	return r, nil
}

// Resolver returns a resolver for zookeeper:// targets. All watches of the same servers
// share one connection, which is closed after the last one.
func Resolver(opts ...Option) registry.Resolver { return newRegistry(opts) }

func newRegistry(opts []Option) *Registry {
	r := &Registry{options: options{ttl: defaultTTL, log: slog.New(slog.DiscardHandler)}}
	for _, opt := range opts {
		opt(&r.options)
	}
	r.documents.registry = r
	r.links.Open = func(key string) (*link, error) { return openLink(key, &r.options) }
	r.links.Close = (*link).close
	return r
}

// Check fails for an invalid target. It does not contact the servers.
func (r *Registry) Check(target registry.Target) error {
	_, err := r.place(target)
	return err
}

// place parses a target, or the registry's own target instead of the zero target.
func (r *Registry) place(target registry.Target) (place, error) {
	if target.Address() == "" {
		target = r.target
	}
	p, err := parsePlace(target, &r.options)
	if err != nil {
		return p, fmt.Errorf("%s: %w", name, err)
	}
	return p, nil
}

// errClosed is the error of operations after Close.
var errClosed = errors.New(name + ": the registry is closed")

// Register lists the instance. See [registry.Registrar].
func (r *Registry) Register(ctx context.Context, in tandem.Instance) (registry.Registration, error) {
	if r.target.Address() == "" {
		return nil, errors.New(name + ": a resolver has no directory to register in; use New")
	}
	p, err := r.place(r.target)
	if err != nil {
		return nil, err
	}
	l, err := r.connect(p)
	if err != nil {
		return nil, err
	}
	e := newEntry(l, p)
	inner, err := adapter.Maintain(ctx, e, in, adapter.Upkeep{
		Name: name, Every: p.ttl / 3, Lost: e.lost, Log: r.options.log,
	})
	if err != nil {
		return nil, err
	}
	reg := &registration{Registration: inner, registry: r}
	if err := r.keep(reg); err != nil {
		return nil, err
	}
	return reg, nil
}

// connect returns the link of the registrations, which is kept until Close.
func (r *Registry) connect(p place) (*link, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, errClosed
	}
	if r.link == nil {
		l, release, err := r.links.Acquire(p.link)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		r.link, r.release = l, release
	}
	return r.link, nil
}

// Watch delivers the instances of the directory that the target names, or of the
// registry's own when it is the zero target. A directory that does not exist is an
// empty list. See [registry.Resolver].
func (r *Registry) Watch(ctx context.Context, target registry.Target, update func(registry.Snapshot)) error {
	p, err := r.place(target)
	if err != nil {
		return err
	}
	l, release, err := r.links.Acquire(p.link)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer release()
	w := newLister(l, p)
	return adapter.Follower{Name: name, Session: w.session, Log: r.options.log}.Follow(ctx, update)
}

// Close deletes the instances of all open registrations, and the reports. The session
// ends with the last watch; watches go on until their contexts end. Close returns within
// seconds, even if no server can be reached. A second Close does nothing.
func (r *Registry) Close() error {
	r.mu.Lock()
	open, release := r.open, r.release
	r.closed, r.link, r.release, r.open = true, nil, nil, nil
	r.mu.Unlock()
	err := closeAll(open)
	if release != nil {
		release()
	}
	return err
}

// keep makes Close close c. After Close it closes c itself, and fails.
func (r *Registry) keep(c io.Closer) error {
	r.mu.Lock()
	closed := r.closed
	if !closed {
		if r.open == nil {
			r.open = make(map[io.Closer]struct{})
		}
		r.open[c] = struct{}{}
	}
	r.mu.Unlock()
	if closed {
		return errors.Join(errClosed, c.Close())
	}
	return nil
}

// closeAll closes everything at the same time.
func closeAll(open map[io.Closer]struct{}) error {
	var wg sync.WaitGroup
	results := make(chan error, len(open))
	for c := range open {
		wg.Go(func() { results <- c.Close() })
	}
	wg.Wait()
	close(results)
	var errs []error
	for err := range results {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// registration is a Registration that its registry need not close once it is closed.
type registration struct {
	registry.Registration

	registry *Registry
}

func (reg *registration) Close() error {
	err := reg.Registration.Close()
	reg.registry.mu.Lock()
	defer reg.registry.mu.Unlock()
	delete(reg.registry.open, reg)
	return err
}
