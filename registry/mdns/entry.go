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
	"github.com/tandem-rpc/tandem/registry"
)

// Sizes of an answer, in bytes.
const (
	wholePacket = 1300 // that no network cuts into fragments
	maxPacket   = 8952 // 9,000 with the headers of IPv6 and UDP (RFC 6762, section 17)
)

// entry answers for one instance: a [registry.Entry].
type entry struct {
	at     place
	log    *slog.Logger
	label  string // the instance's name on the network; nobody else's
	zone   zone
	server *hashicorp.Server // nil before the first Put
	fields []string          // of the TXT record
	warned bool
}

func newEntry(at place, ttl time.Duration, log *slog.Logger) *entry {
	return &entry{at: at, log: log, label: strings.ToLower(rand.Text()), zone: zone{ttl: uint32(ttl.Seconds())}}
}

// Put begins to answer, or to answer otherwise, and tells those who watch.
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
	// A new server each time, as the old one may have gone deaf.
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

// Check finds out whether the entry has gone deaf. If it has heard a question since
// the last time, anybody's, it has not; else it asks the network for itself.
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
	return errors.New("asked for itself, there was no answer")
}

// escaped brings strings of a TXT record, as they are received, into the form in
// which they are sent.
func escaped(fields []string) []string {
	out := make([]string, len(fields))
	for i, f := range fields {
		text, _ := unescape(f)
		out[i] = strings.ReplaceAll(string(text), `\`, `\\`)
	}
	return out
}

// Delete stops answering and tells those who watch.
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

// records returns what the network is told about the instance.
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
		return nil, nil, fmt.Errorf("instance %q does not fit into a packet: list less about it; %w", in.ID, err)
	}
	if len(data) > maxPacket {
		return nil, nil, fmt.Errorf("instance %q takes a packet of %d bytes, limit %d: list less about it", in.ID, len(data), maxPacket)
	}
	if len(data) > wholePacket && !e.warned {
		e.warned = true
		e.log.Warn(name+": the instance does not fit into one packet; list less about it", "instance", in.ID, "bytes", len(data), "fits", wholePacket)
	}
	return records, fields, nil
}

// port returns that of the first endpoint that has one. Others than us may use it;
// the library wants some.
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

// addresses returns those of the interface, or of this machine's loopback if it has
// none.
func addresses(iface *net.Interface) (ips []net.IP) {
	if iface != nil {
		addrs, _ := iface.Addrs() // none is as good as an error
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
	hears   atomic.Bool // was asked something
}

// Records is called by the library for each question that anybody asks.
func (z *zone) Records(q dns.Question) []dns.RR {
	z.hears.Store(true)
	records := z.records.Load()
	if records == nil {
		return nil
	}
	q.Name = strings.ToLower(q.Name)
	service := records.Service + "." + records.Domain
	if q.Name == records.Instance+"."+service && q.Qtype == dns.TypePTR {
		q.Name = service // the library's client asks for an instance so
	}
	answers := records.Records(q)
	for _, rr := range answers {
		rr.Header().Ttl = z.ttl
	}
	return answers
}

var _ registry.Entry = (*entry)(nil)
