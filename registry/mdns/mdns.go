// Package mdns finds servers on a local network without any registry: each server
// answers for itself, by Multicast DNS (RFC 6762) and DNS-Based Service Discovery
// (RFC 6763).
//
//	r, err := mdns.New("mdns://eth0/prod/Arith")
//	entry, err := r.Register(ctx, instance)   // a server
//	c, err := client.Dial("mdns://eth0/prod/Arith", client.WithResolver("mdns", mdns.Resolver()))
//
// It is for the machines on one network segment, some dozens of instances, and
// people who trust each other: anybody there may answer.
//
// # Targets
//
//	mdns://eth0/base/Service
//
// The host is the network interface that is used; * leaves it to the system. The
// path names one list: Service becomes the service type _service._tcp, what stands
// before it a domain below local, here _service._tcp.base.local. So its parts are
// letters, digits and hyphens, at most 62 each, and case does not count. Options are
//
//	ttl=15s     how long an instance is listed after its last answer; 15 s unless
//	            given, at least 1 s, at most 1 h
//	ipv6=true   ask by IPv6 as well as by IPv4; servers answer both
//
// # What is sent
//
// An instance is a name of its own, which says nothing, with the records PTR, SRV,
// A and AAAA, and TXT. The latter has the instance as JSON in strings json0=…,
// json1=… of at most 255 bytes each; the others are there for other programs.
//
// An answer should fit into one packet of 1,300 bytes, as most instances do. A
// larger one travels in fragments and is lost with any of them, which the log says
// once; one of more than 8,952 bytes, which RFC 6762 does not allow, is refused.
//
// # Watching
//
// A watch asks the network at growing intervals, after half a second first and then
// up to a third of the time to live, and waits 300 ms for answers each time; it asks
// twice before it says that there is nothing. An
// instance that has not answered for the time to live is off the list. A server
// that begins or ends tells so by a question that nobody answers,
// name._new._service._tcp.… or name._gone._service._tcp.…: watches then ask at once.
// An instance that was closed is off as soon as it does not answer that.
//
// A registration that has not heard a question for a third of its time to live asks
// for itself, and begins to answer anew if there is no answer: a network interface
// that went away and came back has forgotten that somebody listened.
//
// There is nothing that orders two writers. Where several instances answer with one
// ID, the one that started last is listed.
//
// # What listens
//
// Sockets are bound to port 5353 of all addresses, as Multicast DNS shares that port
// among programs, but join the group on the one interface alone. Packets that reach
// port 5353 otherwise are answered too: a firewall should keep strangers from it.
// Every registration has its own sockets; all watches of a [Registry] share those
// for announcements, and each has its own while it asks.
package mdns

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
)

const name = "mdns registry"

// Registry is the list that a target names: a Registrar and a Resolver. It is safe
// for concurrent use.
type Registry struct {
	options options
	own     *place // nil for one that only resolves
	shared  registry.Shared[*listener]
}

var (
	_ registry.Registrar = (*Registry)(nil)
	_ registry.Resolver  = (*Registry)(nil)
	_ registry.Checker   = (*Registry)(nil)
)

// New returns the registry that the target names. It fails for a target that can
// never work; an interface that does not exist may come.
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
	return registry.Maintain(ctx, newEntry(*r.own, ttl, r.options.log), in, registry.Upkeep{
		Name:  name,
		Every: ttl / 3,
		Log:   r.options.log,
	})
}

// Watch delivers the list that the target names, or the registry's own when it
// names none.
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
	follower := registry.Follower{
		Name: name, Session: w.session, Log: r.options.log,
		Relist: time.Hour, // a session asks for everything all the time
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
