package mdns

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	hashicorp "github.com/hashicorp/mdns"
	"github.com/miekg/dns"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry/adapter"
)

// Sizes of an answer, in bytes.
const (
	wholePacket = 1300 // such an answer fits into one packet of any usual network
	maxPacket   = 8952 // 9,000 with the headers of IPv6 and UDP (RFC 6762, section 17)
)

// entry answers for one instance: an [adapter.Entry].
type entry struct {
	at     place
	log    *slog.Logger
	label  string // the instance's name on the network; random, so unique
	zone   zone
	server *hashicorp.Server // nil before the first Put
	fields []string          // strings of the TXT record
	warned bool
}

func newEntry(at place, ttl time.Duration, log *slog.Logger) *entry {
	return &entry{at: at, log: log, label: strings.ToLower(rand.Text()), zone: zone{ttl: uint32(ttl.Seconds())}}
}

// Put starts to answer with in, or changes the answer to it, and notifies the watches.
func (e *entry) Put(ctx context.Context, in tandem.Instance) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	iface, err := interfaceOf(e.at.iface)
	if err != nil {
		return err
	}
	records, fields, err := e.records(in, iface)
	if err != nil {
		return err
	}
	// A new server each time, as the old one may not receive questions any more.
	server, err := hashicorp.NewServer(&hashicorp.Config{Zone: &e.zone, Iface: iface, Logger: logger(e.log)})
	if err != nil {
		return err
	}
	e.stop()
	e.zone.hears.Store(false)
	e.zone.records.Store(records)
	e.server, e.fields = server, fields
	return notify(ctx, e.at, e.label+"._new", e.log)
}

// Check fails if the entry does not receive questions any more. If it has received any
// question since the last Check, it does; else Check asks the network for the entry.
func (e *entry) Check(ctx context.Context) error {
	if e.zone.hears.Swap(false) {
		return nil
	}
	answers, err := ask(ctx, e.at, e.label+"."+e.at.service, e.log)
	if err != nil {
		return err
	}
	for _, a := range answers {
		if strings.HasPrefix(a.Name, e.label+".") && slices.Equal(escaped(a.InfoFields), e.fields) {
			return nil
		}
	}
	return errors.New("it asked the network for itself and got no answer")
}

// escaped converts strings of a TXT record from the form in which package dns delivers them
// to the form in which it takes them.
func escaped(fields []string) []string {
	out := make([]string, len(fields))
	for i, f := range fields {
		text, _ := unescape(f)
		out[i] = strings.ReplaceAll(string(text), `\`, `\\`)
	}
	return out
}

// Delete stops answering and notifies the watches.
func (e *entry) Delete(ctx context.Context) error {
	if e.server == nil {
		return nil
	}
	e.stop()
	return notify(ctx, e.at, e.label+"._gone", e.log)
}

func (e *entry) stop() {
	if e.server != nil {
		_ = e.server.Shutdown() // never fails
		e.server = nil
	}
}

// records returns the DNS records of the instance, and the strings of its TXT record.
func (e *entry) records(in tandem.Instance, iface *net.Interface) (*hashicorp.MDNSService, []string, error) {
	fields, err := encodeTXT(in)
	if err != nil {
		return nil, nil, err
	}
	host := e.label + "." + e.at.domain + "."
	records, err := hashicorp.NewMDNSService(e.label, e.at.service, e.at.domain+".", host, port(in), addresses(iface), fields)
	if err != nil {
		return nil, nil, err
	}
	answer := dns.Msg{Compress: true, Answer: records.Records(dns.Question{Name: e.at.fqdn(), Qtype: dns.TypePTR})}
	data, err := answer.Pack()
	if err != nil {
		return nil, nil, fmt.Errorf("instance %q does not fit into a packet: list fewer services, endpoints or tags; %w", in.ID, err)
	}
	if len(data) > maxPacket {
		return nil, nil, fmt.Errorf("instance %q takes a packet of %d bytes, limit %d: list fewer services, endpoints or tags", in.ID, len(data), maxPacket)
	}
	if len(data) > wholePacket && !e.warned {
		e.warned = true
		e.log.Warn(name+": the instance does not fit into one packet; list fewer services, endpoints or tags", "instance", in.ID, "bytes", len(data), "fits", wholePacket)
	}
	return records, fields, nil
}

// port returns the port of the first endpoint that has one. Other programs may use it; the
// library requires one.
func port(in tandem.Instance) int {
	for _, ep := range in.Endpoints {
		if _, text, err := net.SplitHostPort(ep.Address); err == nil {
			if n, err := strconv.ParseUint(text, 10, 16); err == nil && n > 0 {
				return int(n)
			}
		}
	}
	return 9 // "discard"
}

// addresses returns the addresses of the interface, or 127.0.0.1 if it has none.
func addresses(iface *net.Interface) (ips []net.IP) {
	if iface != nil {
		addrs, _ := iface.Addrs() // an error is treated like no addresses
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok {
				ips = append(ips, n.IP)
			}
		}
	}
	if len(ips) == 0 {
		ips = []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	return ips
}

// zone answers questions for one instance.
type zone struct {
	ttl     uint32 // seconds
	records atomic.Pointer[hashicorp.MDNSService]
	hears   atomic.Bool // a question was received since the last Check or Put
}

// Records returns the answers to a question. The library calls it for each question that it
// receives.
func (z *zone) Records(q dns.Question) []dns.RR {
	z.hears.Store(true)
	records := z.records.Load()
	if records == nil {
		return nil
	}
	q.Name = strings.ToLower(q.Name)
	service := records.Service + "." + records.Domain
	if q.Name == records.Instance+"."+service && q.Qtype == dns.TypePTR {
		q.Name = service // this is how the library's client asks for an instance
	}
	answers := records.Records(q)
	for _, rr := range answers {
		rr.Header().Ttl = z.ttl
	}
	return answers
}

var _ adapter.Entry = (*entry)(nil)
