// Package dns (stable) finds servers by their names in the DNS. Clients have its [Resolver]
// for dns:// targets already:
//
//	dns://host:port                   every A and AAAA record of host
//	dns://_service._proto.name        the SRV records, which have the ports
//
// Of SRV records only those of the best priority are listed, with their
// weights; a sole record with the target "." is an empty list (RFC 2782).
// Options are
//
//	interval=30s     longest time between lookups, 30 s unless given, at least 100 ms
//	server=host:port the name server to ask instead of the system's; of several,
//	                 with commas between them, the next is asked when one fails
//	transport=tcp    the transport of the endpoints; tcp unless given
//	protocol=grpc    the protocol of the endpoints; tandem's own unless given
//
// # Lookups
//
// A name is looked up again when the time to live of its records has passed, after a second at
// least, and after the interval at the latest. Where Go can't see the time to live, because it
// leaves lookups to the C library or the system, the interval counts alone. Intervals vary by a
// tenth, so that many clients don't ask at the same time. When a client has lost its last
// connection, the name is looked up at once and, while no instance can be reached, again after 1 s,
// 2 s and so on up to the interval.
//
// # Failures
//
// A failed lookup delivers a Snapshot with Err, so the last list stays. A name without records
// (NXDOMAIN, or no record of the type) is an empty list if there were some before, and an error
// while there were none, because the name may be misspelled. Both are retried after 1 s, 2 s and so
// on up to the interval. A client doubts a list that becomes empty: see [adapter.Keeper].
//
// An instance's ID is transport://address.
package dns

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/adapter"
)

// Times of a resolver.
const (
	defaultInterval = 30 * time.Second // time between lookups; the option interval overrides it
	minInterval     = 100 * time.Millisecond
	minTTL          = time.Second     // a shorter time to live counts as this
	timeout         = 5 * time.Second // timeout of one lookup, at all servers
	firstRetry      = time.Second     // pause after the first failure; doubles with each further failure
)

// Lookup looks names up for the resolver of [ResolverWith]. [*net.Resolver] implements it.
type Lookup interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
	LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error)
}

// Resolver returns a resolver that asks the system's name servers.
func Resolver() registry.Resolver { return ResolverWith(net.DefaultResolver) }

// ResolverWith is [Resolver] with the caller's Lookup.
func ResolverWith(lookup Lookup) registry.Resolver { return resolver{lookup} }

type resolver struct{ lookup Lookup }

var (
	_ registry.Checker = resolver{}
	_ adapter.Poller   = resolver{}
)

func (r resolver) Watch(ctx context.Context, target registry.Target, update func(registry.Snapshot)) error {
	return r.Poll(ctx, target, nil, update)
}

// Poll implements [adapter.Poller].
func (r resolver) Poll(ctx context.Context, target registry.Target, now <-chan struct{}, update func(registry.Snapshot)) error {
	q, err := parse(target)
	if err != nil {
		return err
	}
	if err := r.serves(&q, target); err != nil {
		return err
	}
	feed := adapter.NewFeed(update)
	failures, prompts := 0, 0 // both in a row
	listed := false
	longest := q.interval
	for {
		list, t, err := r.ask(ctx, &q)
		q.interval = longest
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case listed && isNotFound(err):
			failures++
			feed.List(nil)
		case err != nil:
			failures++
			feed.Fail(fmt.Errorf("dns registry: %w", err))
		default:
			failures, listed = 0, true
			feed.List(list)
			if ttl, known := t.ttl(); known {
				q.interval = min(longest, max(ttl, minTTL))
			}
		}
		prompted, err := q.rest(ctx, now, failures, prompts)
		if err != nil {
			return err
		}
		if prompts++; !prompted {
			prompts = 0
		}
	}
}

// isNotFound reports whether a name server has said that there is no such record.
func isNotFound(err error) bool {
	e, is := errors.AsType[*net.DNSError](err)
	return is && e.IsNotFound && !e.IsTemporary && !e.IsTimeout
}

// ask looks the name up once, at the servers of the target in turn, if there are any, until one
// answers. The tap knows the time to live; it is nil if nothing does.
func (r resolver) ask(ctx context.Context, q *query) (list []tandem.Instance, t *tap, err error) {
	n, ok := r.lookup.(*net.Resolver)
	if !ok {
		list, err = q.ask(ctx, r.lookup, timeout)
		return list, nil, err
	}
	if len(q.servers) == 0 {
		t = new(tap)
		list, err = q.ask(ctx, t.tapped(n, ""), timeout)
		return list, t, err
	}
	for range q.servers {
		t = new(tap)
		list, err = q.ask(ctx, t.tapped(n, q.servers[0]), timeout/time.Duration(len(q.servers)))
		if err == nil || isNotFound(err) || ctx.Err() != nil {
			break
		}
		q.servers = append(q.servers[1:], q.servers[0]) // the one that answers stays the first
	}
	return list, t, err
}

// serves fails for a query that the resolver's Lookup can't make.
func (r resolver) serves(q *query, target registry.Target) error {
	if _, ok := r.lookup.(*net.Resolver); !ok && len(q.servers) > 0 {
		return wrong(target, "the option server needs a *net.Resolver, and ResolverWith was given a %T", r.lookup)
	}
	return nil
}

func (r resolver) Check(target registry.Target) error {
	q, err := parse(target)
	if err != nil {
		return err
	}
	return r.serves(&q, target)
}

// query is a parsed dns target.
type query struct {
	name     string
	port     string // "" for SRV
	interval time.Duration
	servers  []string        // name servers to ask; none for the system's
	endpoint tandem.Endpoint // the endpoint of every instance, without the address
}

func parse(target registry.Target) (query, error) {
	options, err := target.Options("interval", "transport", "protocol", "server")
	if err != nil {
		return query{}, err
	}
	q := query{name: target.Authority, interval: defaultInterval}
	q.endpoint = tandem.Endpoint{Transport: cmp.Or(options["transport"], "tcp"), Protocol: options["protocol"]}
	if target.Path != "" {
		return q, wrong(target, "want dns://host:port or dns://_service._proto.name, without a path")
	}
	if text := options["interval"]; text != "" {
		q.interval, err = time.ParseDuration(text)
		if err != nil || q.interval < minInterval {
			return q, wrong(target, "bad interval %.20q: want a duration of at least %v", text, minInterval)
		}
	}
	if text := options["server"]; text != "" {
		q.servers = strings.Split(text, ",")
		for _, s := range q.servers {
			if _, err := netip.ParseAddrPort(s); err != nil {
				return q, wrong(target, "bad server %.60q: want addresses with ports, such as 10.96.0.10:53", s)
			}
		}
	}
	if strings.HasPrefix(q.name, "_") && !strings.Contains(q.name, ":") {
		return q, nil
	}
	if q.name, q.port, err = net.SplitHostPort(target.Authority); err != nil {
		return q, wrong(target, "%w; want host:port", err)
	}
	if n, err := net.DefaultResolver.LookupPort(context.Background(), "tcp", q.port); err != nil || n == 0 {
		return q, wrong(target, "address %.100q: bad port %.20q", target.Authority, q.port)
	}
	if q.name == "" {
		return q, wrong(target, "no host to look up before the port")
	}
	return q, nil
}

// wrong returns the error of a target that can never work.
func wrong(target registry.Target, format string, args ...any) error {
	return fmt.Errorf("target %.100q: "+format, append([]any{target.Redacted()}, args...)...)
}

// pause returns how long to wait after a lookup; failures is the number of failed
// lookups in a row, 0 after a success. random is in [0,1).
func (q query) pause(failures int, random float64) time.Duration {
	if failures == 0 {
		return time.Duration(float64(q.interval) * (0.9 + 0.2*random))
	}
	wait := min(firstRetry<<min(failures-1, 16), q.interval)
	return time.Duration(float64(wait) * (0.5 + 0.5*random))
}

// rest waits until the next lookup is due and reports whether now received while it
// waited, which makes the lookup due sooner. prompts is the number of lookups in a row
// that now made due sooner: the pause grows with it as it does with failures.
func (q query) rest(ctx context.Context, now <-chan struct{}, failures, prompts int) (prompted bool, err error) {
	due := time.Now().Add(q.pause(failures, rand.Float64()))
	soon := time.Now().Add(q.pause(prompts+1, rand.Float64()))
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return prompted, nil
		case <-now:
			now, prompted = nil, true
			if soon.Before(due) {
				timer.Reset(time.Until(soon))
			}
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// ask looks the name up once.
func (q query) ask(ctx context.Context, lookup Lookup, timeout time.Duration) ([]tandem.Instance, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if q.port == "" {
		return q.askSRV(ctx, lookup)
	}
	return q.askIP(ctx, lookup)
}

// fqdn returns the name to look up. The system's list of domains to search is for its own name
// servers.
func (q query) fqdn() string {
	if _, err := netip.ParseAddr(q.name); err == nil || len(q.servers) == 0 || strings.HasSuffix(q.name, ".") {
		return q.name
	}
	return q.name + "."
}

func (q query) askIP(ctx context.Context, lookup Lookup) ([]tandem.Instance, error) {
	addrs, err := lookup.LookupNetIP(ctx, "ip", q.fqdn())
	if err == nil && len(addrs) == 0 {
		err = fmt.Errorf("%s has no address", q.name)
	}
	if err != nil {
		return nil, err
	}
	found := newAddressList(q.endpoint)
	for _, addr := range addrs {
		found.add(net.JoinHostPort(addr.Unmap().String(), q.port), 0)
	}
	return found.list, nil
}

func (q query) askSRV(ctx context.Context, lookup Lookup) ([]tandem.Instance, error) {
	// net.Resolver drops invalid records and then returns the others together
	// with an error. The others are valid.
	_, records, err := lookup.LookupSRV(ctx, "", "", q.fqdn())
	if len(records) == 0 {
		return nil, cmp.Or(err, errors.New(q.name+" has no SRV record"))
	}
	if len(records) == 1 && records[0].Target == "." {
		return nil, nil
	}
	best := records[0].Priority
	for _, r := range records {
		best = min(best, r.Priority)
	}
	found := newAddressList(q.endpoint)
	for _, r := range records {
		if r.Priority == best {
			host := strings.TrimSuffix(r.Target, ".")
			found.add(net.JoinHostPort(host, strconv.Itoa(int(r.Port))), srvWeight(r.Weight))
		}
	}
	return found.list, nil
}

// srvWeight turns a record's weight, 0 to 65535, into an instance's, where 0
// would mean the default. RFC 2782 gives weight 0 "a very small chance".
func srvWeight(w uint16) int { return min(max(int(w), 1), tandem.MaxWeight) }

// addressList collects instances, each address once: a response may repeat an
// address, and an IPv4 address may come in two forms.
type addressList struct {
	endpoint tandem.Endpoint
	list     []tandem.Instance
	seen     map[string]bool
}

func newAddressList(ep tandem.Endpoint) *addressList {
	return &addressList{endpoint: ep, seen: make(map[string]bool)}
}

func (l *addressList) add(address string, weight int) {
	if l.seen[address] {
		return
	}
	l.seen[address] = true
	ep := l.endpoint
	ep.Address = address
	l.list = append(l.list, tandem.Instance{ID: ep.String(), Endpoints: []tandem.Endpoint{ep}, Weight: weight})
}
