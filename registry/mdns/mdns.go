// Package mdns (experimental) finds servers on a local network without any registry: each server
// answers for itself, by Multicast DNS (RFC 6762) and DNS-Based Service Discovery
// (RFC 6763).
//
//	r, err := mdns.New("mdns://eth0/prod/Arith")
//	entry, err := r.Register(ctx, instance)   // a server
//	c, err := client.Dial("mdns://eth0/prod/Arith", client.WithResolver("mdns", mdns.Resolver()))
//
// It is for one network segment, some dozens of instances, and machines that trust each
// other: any of them can answer.
//
// # Targets
//
//	mdns://eth0/base/Service
//
// The host is the network interface to use; * leaves the choice to the system. The path
// names one list: Service becomes the service type _service._tcp, and the path before it a
// domain below local, here _service._tcp.base.local. So each part of the path has letters,
// digits and hyphens, at most 62, and is not case-sensitive. Options are
//
//	ttl=15s     how long an instance is listed after its last answer; 15 s by default,
//	            at least 1 s, at most 1 h
//	ipv6=true   ask by IPv6 as well as by IPv4; servers answer both
//
// # What is sent
//
// An instance has a random name, with the records PTR, SRV, A and AAAA, and TXT. The TXT
// record has the instance as JSON in strings json0=…, json1=… of at most 255 bytes each;
// the other records are for other programs.
//
// An answer should fit into one packet of 1,300 bytes, as that of most instances does. A
// larger one is sent in fragments and lost if one of them is lost; this is logged once. An
// instance with more than 8,952 bytes, the limit of RFC 6762, is refused.
//
// # Watching
//
// A watch asks the network at growing intervals, from half a second to a third of the time
// to live, and waits 300 ms for answers each time. It asks twice before it delivers an empty
// list at its start. An instance that has not answered for the time to live leaves the list.
// A server that starts or ends sends a question that has no answer,
// name._new._service._tcp.… or name._gone._service._tcp.…: watches then ask at once. A
// closed instance leaves the list when it does not answer that.
//
// A registration that has not received a question for a third of its time to live asks the
// network for itself. If there is no answer, it starts its server again: a recreated network
// interface has lost its memberships of the multicast group.
//
// Two writers are not ordered. If several instances answer with one ID, the one that started
// last is listed.
//
// A [Registry] is no [registry.Directory]. DNS-Based Service Discovery can list the service types
// of one domain (RFC 6763, section 9), but not the domains below it, where most lists are, and
// names there have lost the case of paths.
//
// # What listens
//
// Sockets are bound to port 5353 of all addresses, as programs share that port for Multicast
// DNS, but join the group on the one interface only. Packets that reach port 5353 another
// way are answered, too: a firewall should protect the port. Every registration has its own
// sockets. All watches of a [Registry] share those for announcements, and each has its own
// while it asks.
package mdns

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/adapter"
)

const name = "mdns registry"

// Registry is the list that a target names: a Registrar and a Resolver. It is safe
// for concurrent use.
type Registry struct {
	options options
	own     *place // nil for a Resolver
	shared  adapter.Shared[*listener]
}

var (
	_ registry.Registrar = (*Registry)(nil)
	_ registry.Resolver  = (*Registry)(nil)
	_ registry.Checker   = (*Registry)(nil)
)

// New returns the registry that the target names. It fails if the target can never work. An
// interface that does not exist is no error: it may appear later.
func New(target string, opts ...Option) (*Registry, error) {
	t, err := registry.ParseTarget(target)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	own, err := parse(t)
	if err != nil {
		return nil, err
	}
	r := newRegistry(opts)
	r.own = &own
	return r, nil
}

// Resolver returns a resolver for mdns:// targets.
func Resolver(opts ...Option) registry.Resolver { return newRegistry(opts) }

func newRegistry(opts []Option) *Registry {
	r := &Registry{options: defaults()}
	for _, o := range opts {
		o(&r.options)
	}
	r.shared.Open = func(iface string) (*listener, error) { return newListener(iface, r.options.log), nil }
	r.shared.Close = (*listener).close
	return r
}

// Close does nothing: registrations and watches release what they use.
func (r *Registry) Close() error { return nil }

// Register answers for the instance until the Registration is closed.
func (r *Registry) Register(ctx context.Context, in tandem.Instance) (registry.Registration, error) {
	if r.own == nil {
		return nil, errors.New(name + ": there is no list to register in; use New with a target")
	}
	ttl := r.options.ttlOf(*r.own)
	return adapter.Maintain(ctx, newEntry(*r.own, ttl, r.options.log), in, adapter.Upkeep{
		Name:  name,
		Every: ttl / 3,
		Log:   r.options.log,
	})
}

// Watch delivers the list that the target names, or the registry's own list if the target
// is empty.
func (r *Registry) Watch(ctx context.Context, target registry.Target, update func(registry.Snapshot)) error {
	at, err := r.placeOf(target)
	if err != nil {
		return err
	}
	l, release, err := r.shared.Acquire(at.iface)
	if err != nil {
		return err
	}
	defer release()
	w := &watch{at: at, ttl: r.options.ttlOf(at), log: r.options.log, listener: l, heard: map[string]answer{}}
	follower := adapter.Follower{
		Name: name, Session: w.session, Log: r.options.log,
		Relist: time.Hour, // a session asks for the whole list anyway
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
