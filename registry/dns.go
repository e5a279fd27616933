package registry

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
)

// Times of the DNS resolver.
const (
	dnsInterval    = 30 * time.Second // time between lookups; the option interval overrides it
	dnsMinInterval = 100 * time.Millisecond
	dnsTimeout     = 5 * time.Second // timeout of one lookup
	dnsFirstRetry  = time.Second     // pause after the first failure; doubles with each further failure
)

// Lookup looks names up for the resolver of [DNSWith]. [*net.Resolver] implements it.
type Lookup interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
	LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error)
}

// DNS returns a resolver that asks the system's name servers:
//
//	dns://host:port                   every A and AAAA record of host
//	dns://_service._proto.name        the SRV records, which have the ports
//
// Of SRV records only those of the best priority are listed, with their
// weights; a sole record with the target "." is an empty list (RFC 2782).
// Options are
//
//	interval=30s    time between lookups, 30 s unless given, at least 100 ms
//	transport=tcp   the transport of the endpoints; tcp unless given
//	protocol=grpc   the protocol of the endpoints; tandem's own unless given
//
// Intervals vary by a tenth, so that many clients don't ask at the same time. A failed
// lookup (a name without records is one) delivers a Snapshot with Err and is retried
// after 1 s, 2 s and so on up to the interval. When a client has lost its last
// connection, the name is looked up at once and, while no instance can be reached,
// again after 1 s, 2 s and so on up to the interval.
//
// The time to live of DNS records is not used, because Go's resolver does not report
// it. Where names change more often than every 30 s, set a shorter interval; the
// system's DNS cache, if there is one, applies the time to live.
//
// An instance's ID is transport://address.
func DNS() Resolver { return DNSWith(net.DefaultResolver) }

// DNSWith is [DNS] with the caller's Lookup.
func DNSWith(lookup Lookup) Resolver { return dnsResolver{lookup} }

type dnsResolver struct{ lookup Lookup }

func (r dnsResolver) Watch(ctx context.Context, target Target, update func(Snapshot)) error {
	return r.Poll(ctx, target, nil, update)
}

// Poll implements [Poller].
func (r dnsResolver) Poll(ctx context.Context, target Target, now <-chan struct{}, update func(Snapshot)) error {
	q, err := parseDNS(target)
	if err != nil {
		return err
	}
	feed := NewFeed(update)
	failures, prompts := 0, 0 // both in a row
	for {
		list, err := q.ask(ctx, r.lookup)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			failures++
			feed.Fail(fmt.Errorf("dns registry: %w", err))
		default:
			failures = 0
			feed.List(list)
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

func (dnsResolver) Check(target Target) error {
	_, err := parseDNS(target)
	return err
}

// dnsQuery is a parsed dns target.
type dnsQuery struct {
	name     string
	port     string // "" for SRV
	interval time.Duration
	endpoint tandem.Endpoint // the endpoint of every instance, without the address
}

func parseDNS(target Target) (dnsQuery, error) {
	options, err := target.Options("interval", "transport", "protocol")
	if err != nil {
		return dnsQuery{}, err
	}
	q := dnsQuery{name: target.Authority, interval: dnsInterval}
	q.endpoint = tandem.Endpoint{Transport: cmp.Or(options["transport"], "tcp"), Protocol: options["protocol"]}
	if target.Path != "" {
		return q, target.errorf("want dns://host:port or dns://_service._proto.name, without a path")
	}
	if text := options["interval"]; text != "" {
		q.interval, err = time.ParseDuration(text)
		if err != nil || q.interval < dnsMinInterval {
			return q, target.errorf("bad interval %.20q: want a duration of at least %v", text, dnsMinInterval)
		}
	}
	if strings.HasPrefix(q.name, "_") && !strings.Contains(q.name, ":") {
		return q, nil
	}
	if err := checkHostPort(q.name); err != nil {
		return q, target.errorf("%w", err)
	}
	q.name, q.port, _ = net.SplitHostPort(target.Authority)
	if q.name == "" {
		return q, target.errorf("no host to look up before the port")
	}
	return q, nil
}

// pause returns how long to wait after a lookup; failures is the number of failed
// lookups in a row, 0 after a success. random is in [0,1).
func (q dnsQuery) pause(failures int, random float64) time.Duration {
	if failures == 0 {
		return time.Duration(float64(q.interval) * (0.9 + 0.2*random))
	}
	wait := min(dnsFirstRetry<<min(failures-1, 16), q.interval)
	return time.Duration(float64(wait) * (0.5 + 0.5*random))
}

// rest waits until the next lookup is due and reports whether now received while it
// waited, which makes the lookup due sooner. prompts is the number of lookups in a row
// that now made due sooner: the pause grows with it as it does with failures.
func (q dnsQuery) rest(ctx context.Context, now <-chan struct{}, failures, prompts int) (prompted bool, err error) {
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
func (q dnsQuery) ask(ctx context.Context, lookup Lookup) ([]tandem.Instance, error) {
	ctx, cancel := context.WithTimeout(ctx, dnsTimeout)
	defer cancel()
	if q.port == "" {
		return q.askSRV(ctx, lookup)
	}
	return q.askIP(ctx, lookup)
}

func (q dnsQuery) askIP(ctx context.Context, lookup Lookup) ([]tandem.Instance, error) {
	addrs, err := lookup.LookupNetIP(ctx, "ip", q.name)
	if err == nil && len(addrs) == 0 {
		err = fmt.Errorf("%s has no address", q.name)
	}
	if err != nil {
		return nil, err
	}
	found := newDNSList(q.endpoint)
	for _, addr := range addrs {
		found.add(net.JoinHostPort(addr.Unmap().String(), q.port), 0)
	}
	return found.list, nil
}

func (q dnsQuery) askSRV(ctx context.Context, lookup Lookup) ([]tandem.Instance, error) {
	// net.Resolver drops invalid records and then returns the others together
	// with an error. The others are valid.
	_, records, err := lookup.LookupSRV(ctx, "", "", q.name)
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
	found := newDNSList(q.endpoint)
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

// dnsList collects instances, each address once: a response may repeat an
// address, and an IPv4 address may come in two forms.
type dnsList struct {
	endpoint tandem.Endpoint
	list     []tandem.Instance
	seen     map[string]bool
}

func newDNSList(ep tandem.Endpoint) *dnsList {
	return &dnsList{endpoint: ep, seen: make(map[string]bool)}
}

func (l *dnsList) add(address string, weight int) {
	if l.seen[address] {
		return
	}
	l.seen[address] = true
	ep := l.endpoint
	ep.Address = address
	l.list = append(l.list, tandem.Instance{ID: ep.String(), Endpoints: []tandem.Endpoint{ep}, Weight: weight})
}
