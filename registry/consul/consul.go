// Package consul lists and finds instances in the service catalogue of Consul,
// through its agents' HTTP API.
//
//	r, err := consul.New("consul://127.0.0.1:8500/prod/Arith")
//	entry, err := r.Register(ctx, instance)      // a server
//	client.WithResolver("consul", consul.Resolver()) // a client of the same target
//
// # Targets
//
// consul://h1:8500,h2:8500/base/Service?ttl=15s names agents and a list. The
// agents are equal: one is used until it fails, then the next. A port that is
// left out is 8500. The last element of the path is the name of the service in
// Consul. What stands before it, which may be nothing, keeps lists of services of
// the same name apart. The only option is ttl; [WithTTL] says what it means.
//
// # Layout
//
// An instance is a service that is registered with an agent:
//
//   - Its name is the last element of the path. In names and IDs a byte that
//     Consul, or an URL, could take for something else is written as "=" and two
//     hexadecimal digits.
//   - Its ID is the instance's ID, "@", and the whole path. Upper case is escaped
//     too, because Consul's catalogue ignores case. What is longer than 200
//     bytes ends with "~" and a SHA-256 of the ID.
//   - Its address and port are those of the first endpoint that has both, so that
//     Consul's DNS and its web interface have something to show.
//   - Its meta has the whole path under tandem-path, and under tandem-owner a random
//     text that tells a registration from others under the same ID. The instance as
//     JSON ([registry.Encode]) is there in pieces of 512 bytes, which is Consul's
//     limit, under tandem-0, tandem-1 and so on to tandem-59. What does not fit there,
//     beyond 30 KiB, is one tag that begins with "tandem-rest:". Meta and tags change
//     in one step, so nobody sees half of an instance.
//   - It has one check, with a time to live. An instance is listed as long as this
//     check and all others of the service and its node pass. So Consul's
//     maintenance mode takes an instance off the list. One that has not passed for a
//     minute beyond its time to live is removed.
//
// Services of the same name that tandem has not registered are skipped, each with a
// line in the log, and so is everything else that is no instance.
//
// # Watching
//
// A watch is a blocking query. An agent takes 200 connections from one client
// (its limit http_max_conns_per_client), so no more than 64 of those who watch
// through the same Registry or Resolver wait at the same time. With up to 64
// watches a change is seen at once; with more, each looks every four seconds.
//
// An empty list is not believed if the token may not see all of it, or if there is no
// token and Consul's default policy is to deny: both are failures.
//
// # Limits
//
// Consul's agents have no compare-and-set. Who registers looks first whether a
// later incarnation is listed under the ID, and looks again when it renews its
// check; the later one has the place within a third of the time to live.
//
// When the catalogue forgets a service that its agent still has, it is the agent
// that restores it, when it next compares the two: about once a minute.
//
// An instance that was registered through an agent that has failed since is
// registered through the next; where both are seen the later start counts. Closing
// the registration takes it off the agent that has it then. What others still have
// goes when its time to live is over.
//
// An agent that was down for longer than the time to live comes back with every
// check critical, until each server has been heard again. In between the list is
// short, or empty; that is what a [registry.Keeper] doubts.
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
)

// name is what errors and the log call this registry.
const name = "consul registry"

// Registry is a list in Consul: a Registrar, and a Resolver of this list and of
// others. It is safe for concurrent use.
type Registry struct {
	settings settings
	own      place // the zero place of a Resolver, which has none
	shared   *registry.Shared[*agents]
	agents   *agents // of own
	release  func()  // gives agents back, once
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

// WithTTL sets for how long an instance stays listed after its process has last
// been heard of, 1 s to 1 h; 15 s unless given. It is renewed three times as
// often. The option ttl of a target comes before it.
func WithTTL(ttl time.Duration) Option { return func(s *settings) { s.ttl = ttl } }

// WithToken sets the ACL token of every request. To register it needs
// service:write for the service; to watch, service:read and node:read. Unless
// given, the environment variables of Consul's own tools count, CONSUL_HTTP_TOKEN
// and CONSUL_HTTP_TOKEN_FILE.
func WithToken(token string) Option { return func(s *settings) { s.token = token } }

// WithTLS makes every connection to an agent one with TLS. The agents' port for it
// is 8501 unless they are configured otherwise, and must be in the target. A nil
// config trusts what the system trusts.
func WithTLS(config *tls.Config) Option {
	return func(s *settings) {
		if config == nil {
			config = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		s.tls = config
	}
}

// WithLogger sets where skipped services and troubled registrations are reported;
// nowhere unless given.
func WithLogger(log *slog.Logger) Option {
	return func(s *settings) {
		if log != nil {
			s.log = log
		}
	}
}

// New returns the registry that a target names. It does not wait for the agents:
// only a target or an option that can never work is an error. Close it in the end.
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
	r.shared = &registry.Shared[*agents]{
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

// place returns what a target names, or the registry's own place when the target
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

// Check fails for a target that names no list, or has options that there are not.
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
	return registry.Maintain(ctx, e, in, registry.Upkeep{Name: name, Every: r.own.ttl / 3, Log: r.settings.log})
}

// Watch delivers the list that the target names, or the registry's own for the
// zero Target. An agent that is silent is a failure after 14 seconds; one that
// refuses the connection, at once.
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
	return registry.Follower{Name: name, Session: w.session, Log: r.settings.log}.Follow(ctx, update)
}
