// Package consul (stable) lists and finds instances in the service catalogue of Consul,
// through its agents' HTTP API.
//
//	r, err := consul.New("consul://127.0.0.1:8500/prod/Arith")
//	entry, err := r.Register(ctx, instance)      // a server
//	client.WithResolver("consul", consul.Resolver()) // a client of the same target
//
// # Targets
//
// consul://h1:8500,h2:8500/base/Service?ttl=15s names agents and a list. One agent
// is used until it fails, then the next. The default port is 8500. The last element
// of the path is the name of the service in Consul. The elements before it, if any,
// keep lists of services of the same name apart. The only option is ttl, see
// [WithTTL].
//
// # Layout
//
// An instance is a service that is registered with an agent:
//
//   - Its name is the last element of the path. In names and IDs, bytes that have a
//     meaning for Consul, or in a URL, are written as "=" and two hexadecimal digits.
//   - Its ID is the instance's ID, "@", and the whole path. Upper case is escaped
//     too, because Consul's catalogue ignores case. An ID longer than 200 bytes is
//     cut there, and ends with "~" and a SHA-256 of the ID.
//   - Its address and port are those of the first endpoint that has both; Consul's
//     DNS and its web interface show them.
//   - Its meta has the whole path under tandem-path, and under tandem-owner a random
//     text that distinguishes registrations with the same ID. The instance as JSON
//     ([adapter.Encode]) is stored in pieces of 512 bytes, which is Consul's limit,
//     under tandem-0, tandem-1 and so on to tandem-59. The rest, beyond 30 KiB, is one
//     tag that begins with "tandem-rest:". Meta and tags change atomically, so a watch
//     never sees half of an instance.
//   - It has one check, with a time to live. An instance is listed as long as this
//     check and all others of the service and its node pass. So Consul's
//     maintenance mode takes an instance off the list. An instance is removed when
//     its check has been critical for a minute.
//
// Services of the same name that tandem has not registered, and all other entries
// that are not instances, are skipped, each with a line in the log.
//
// # Watching
//
// A watch makes blocking queries. An agent accepts 200 connections from one client
// (its limit http_max_conns_per_client), so at most 64 watches of the same Registry
// or Resolver wait at the same time. With up to 64 watches a change is seen at once;
// with more, each watch makes a query every four seconds.
//
// A list that the token may see only in part is a failure, and so is an empty list
// without a token when Consul's default policy is to deny.
//
// # Limits
//
// Consul's agents have no compare-and-set. A registration checks whether a later
// incarnation is listed under its ID before it registers, and again when it renews
// its check; the later one is listed within a third of the time to live.
//
// When the catalogue loses a service that its agent still has, the agent restores it
// when it next compares the two, about once a minute.
//
// When the agent of an instance fails, the instance is registered through the next
// agent; where both are seen, the later start counts. Closing the registration
// removes the instance from the agent in use. On other agents it expires with its
// time to live.
//
// An agent that was down for longer than the time to live starts with every check
// critical, until each server has renewed its check. Meanwhile the list is short or
// empty; an [adapter.Keeper] keeps instances when a list collapses like that.
package consul

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/adapter"
)

// name is the name of this registry in errors and the log.
const name = "consul registry"

// Registry is a list in Consul: a Registrar, and a Resolver of this list and of
// others. It is safe for concurrent use.
type Registry struct {
	documents // of the own place

	settings settings
	own      place // zero for a Resolver
	shared   *adapter.Shared[*agents]
	agents   *agents // agents of own; nil for a Resolver
	release  func()  // releases agents, once; nil for a Resolver
}

var (
	_ registry.Registrar = (*Registry)(nil)
	_ registry.Resolver  = (*Registry)(nil)
	_ registry.Checker   = (*Registry)(nil)
)

// settings are what the options set.
type settings struct {
	ttl   time.Duration
	token string
	tls   *tls.Config // nil: HTTP without TLS
	log   *slog.Logger
}

// Option changes a [Registry].
type Option func(*settings)

// WithTTL sets how long an instance stays listed after its process has last renewed
// its check, 1 s to 1 h; 15 s unless given. The check is renewed every third of this
// time. The option ttl of a target overrides it.
func WithTTL(ttl time.Duration) Option { return func(s *settings) { s.ttl = ttl } }

// WithToken sets the ACL token of every request. To register it needs
// service:write for the service; to watch, service:read and node:read. Unless
// given, the token comes from the environment variables of Consul's own tools,
// CONSUL_HTTP_TOKEN and CONSUL_HTTP_TOKEN_FILE.
func WithToken(token string) Option { return func(s *settings) { s.token = token } }

// WithTLS makes every connection to an agent use TLS. The agents' port for TLS, 8501
// unless they are configured otherwise, must be in the target. A nil config trusts
// the system's certificate authorities.
func WithTLS(config *tls.Config) Option {
	return func(s *settings) {
		if config == nil {
			config = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		s.tls = config
	}
}

// WithLogger sets the logger for skipped services, and for registrations that are lost
// and restored; nothing is logged unless given.
func WithLogger(log *slog.Logger) Option {
	return func(s *settings) {
		if log != nil {
			s.log = log
		}
	}
}

// New returns the registry that a target names. It does not connect to the agents, and
// fails only for a target or an option that can never work. The caller must Close it.
func New(target string, opts ...Option) (*Registry, error) {
	r := newRegistry(opts)
	parsed, err := registry.ParseTarget(target)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if r.own, err = r.place(parsed); err != nil {
		return nil, err
	}
	if r.agents, r.release, err = r.shared.Acquire(r.own.hosts); err != nil {
		return nil, err
	}
	r.release = sync.OnceFunc(r.release)
	r.documents.place = r.own
	return r, nil
}

// Resolver returns a resolver for consul:// targets. Its watches of the same agents
// share their connections, which close with the last watch.
func Resolver(opts ...Option) registry.Resolver { return newRegistry(opts) }

func newRegistry(opts []Option) *Registry {
	r := &Registry{settings: settings{ttl: defaultTTL, log: slog.New(slog.DiscardHandler)}}
	for _, opt := range opts {
		opt(&r.settings)
	}
	r.documents.registry = r
	r.shared = &adapter.Shared[*agents]{
		Open:  func(hosts string) (*agents, error) { return dial(hosts, r.settings) },
		Close: (*agents).close,
	}
	return r
}

// Close releases the connections. Registrations must be closed before, and watches
// ended. It never fails; a second Close does nothing.
func (r *Registry) Close() error {
	if r.release != nil {
		r.release()
	}
	return nil
}

// place returns the place that a target names, or the registry's own when the target
// is the zero Target.
func (r *Registry) place(target registry.Target) (place, error) {
	if target.Address() == "" && r.own.service != "" {
		return r.own, nil
	}
	p, err := parsePlace(target, r.settings.ttl)
	if err != nil {
		return place{}, fmt.Errorf("%s: %w", name, err)
	}
	return p, nil
}

// Check fails for a target that names no list, or has unknown options.
func (r *Registry) Check(target registry.Target) error {
	_, err := r.place(target)
	return err
}

// Register lists the instance in the registry's own list. It fails when an instance
// that started later is listed under the same ID.
func (r *Registry) Register(ctx context.Context, in tandem.Instance) (registry.Registration, error) {
	if r.agents == nil {
		return nil, fmt.Errorf("%s: a resolver has no list to register in; use New", name)
	}
	e := &entry{agents: r.agents, place: r.own, owner: rand.Text()}
	return adapter.Maintain(ctx, e, in, adapter.Upkeep{Name: name, Every: r.own.ttl / 3, Log: r.settings.log})
}

// Watch delivers the list that the target names, or the registry's own for the
// zero Target. It delivers a failure after 14 seconds for an agent that does not
// answer, and at once for an agent that refuses the connection.
func (r *Registry) Watch(ctx context.Context, target registry.Target, update func(registry.Snapshot)) error {
	p, err := r.place(target)
	if err != nil {
		return err
	}
	agents, release, err := r.shared.Acquire(p.hosts)
	if err != nil {
		return err
	}
	defer release()
	defer agents.join()()
	w := watch{place: p, agents: agents}
	return adapter.Follower{Name: name, Session: w.session, Log: r.settings.log}.Follow(ctx, update)
}
