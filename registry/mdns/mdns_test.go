package mdns

import (
	"log/slog"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	hashicorp "github.com/hashicorp/mdns"
	"github.com/miekg/dns"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
)

var quiet = slog.New(slog.DiscardHandler)

func mustParse(t testing.TB, s string) registry.Target {
	target, err := registry.ParseTarget(s)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

func instance(id string) tandem.Instance {
	return tandem.Instance{ID: id, Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: "127.0.0.1:8972"}}}
}

func TestParse(t *testing.T) {
	for target, want := range map[string]place{
		"mdns://eth0/Arith":                          {iface: "eth0", service: "_arith._tcp", domain: "local"},
		"mdns://*/prod/eu-1/Arith/?ttl=3s&ipv6=true": {iface: "*", service: "_arith._tcp", domain: "eu-1.prod.local", ttl: 3 * time.Second, ipv6: true},
	} {
		if got, err := parse(mustParse(t, target)); err != nil || got != want {
			t.Errorf("%s: %+v, %v", target, got, err)
		}
	}
	for target, want := range map[string]string{
		"mdns://eth0":                            "want a path",
		"mdns://eth0/":                           "want a path",
		"mdns:///Arith":                          "want mdns://interface/Service",
		"mdns://eth0/a_b":                        "want a path",
		"mdns://eth0/a//b":                       "want a path",
		"mdns://eth0/gr%C3%BCn":                  "want a path",
		"mdns://eth0/" + strings.Repeat("a", 63): "at most 62",
		"mdns://eth0/" + strings.Repeat("abcdefghi/", 21): "too long",
		"mdns://eth0/a?tll=3s":                            "unknown option",
		"mdns://eth0/a?ttl=3":                             "bad ttl",
		"mdns://eth0/a?ttl=1ms":                           "bad ttl",
		"mdns://eth0/a?ttl=25h":                           "bad ttl",
		"mdns://eth0/a?ipv6=six":                          "bad ipv6",
	} {
		if _, err := New(target); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New(%q): %v, want %q", target, err, want)
		}
		r := Resolver()
		if err := r.(registry.Checker).Check(mustParse(t, target)); err == nil {
			t.Errorf("Check(%q) is content", target)
		}
		if err := r.Watch(t.Context(), mustParse(t, target), nil); err == nil {
			t.Errorf("Watch(%q) is content", target)
		}
	}
}

func TestTimeToLive(t *testing.T) {
	o := defaults()
	for d, want := range map[time.Duration]time.Duration{
		-1: 15 * time.Second, 1: time.Second, 5 * time.Second: 5 * time.Second, 100 * time.Hour: time.Hour,
	} {
		o = defaults()
		WithTTL(d)(&o)
		if got := o.ttlOf(place{}); got != want {
			t.Errorf("WithTTL(%v): %v, want %v", d, got, want)
		}
	}
	WithLogger(nil)(&o)
	if o.ttlOf(place{ttl: 2 * time.Second}) != 2*time.Second || o.log == nil {
		t.Error("want the target's ttl to take precedence, and a logger despite WithLogger(nil)")
	}
}

// TestTXT packs an instance into a DNS message and decodes it again, as on the network.
func TestTXT(t *testing.T) {
	in := instance("tcp://a:1/" + strings.Repeat("é\x00\x7f\"\\\n", 40))
	in.Tags = map[string]string{"": `\\"\065`, "🚲": strings.Repeat(`\`, 500)}
	fields, err := encodeTXT(in)
	if err != nil {
		t.Fatal(err)
	}
	msg := dns.Msg{Answer: []dns.RR{&dns.TXT{Hdr: dns.RR_Header{Name: "a.", Rrtype: dns.TypeTXT, Class: dns.ClassINET}, Txt: fields}}}
	data, err := msg.Pack()
	if err != nil {
		t.Fatal(err)
	}
	var got dns.Msg
	if err := got.Unpack(data); err != nil {
		t.Fatal(err)
	}
	received := got.Answer[0].(*dns.TXT).Txt
	again, err := decodeTXT(append([]string{"other=1", "jsonx"}, received...))
	if err != nil || !reflect.DeepEqual(again, in) {
		t.Errorf("%+v, %v", again, err)
	}
	if !reflect.DeepEqual(escaped(received), fields) {
		t.Error("what is received does not compare with what was sent")
	}
}

func TestBadTXT(t *testing.T) {
	for want, fields := range map[string][]string{
		"another program's": {"a=b", "json"},
		"invalid character": {"json0={{"},
		"unexpected end":    {"json0={", "json2=}"},
		"bad escape":        {`json0=\999`},
		"cut off":           {`json0=\`},
		"is cut off":        {`json0=\12`},
		"no endpoint":       {`json0={\"id\":\"a\"}`},
	} {
		if in, err := decodeTXT(fields); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v, want %q", fields, in, err, want)
		}
	}
}

func FuzzDecodeTXT(f *testing.F) {
	f.Add("json0={\\\"id\\\":\\\"a\\\"}", "json1=", "a=b")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		in, err := decodeTXT([]string{a, b, c})
		if err != nil {
			return
		}
		fields, err := encodeTXT(in)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decodeTXT(fields); err != nil {
			t.Errorf("%q: %v", fields, err)
		}
	})
}

// heardOf returns an answer as the library delivers it.
func heardOf(t *testing.T, label string, in tandem.Instance) *hashicorp.ServiceEntry {
	fields, err := encodeTXT(in)
	if err != nil {
		t.Fatal(err)
	}
	return &hashicorp.ServiceEntry{Name: label + "._a._tcp.local.", InfoFields: fields}
}

func listed(w *watch) string {
	var ids []string
	for id := range w.list() {
		ids = append(ids, id)
	}
	return strings.Join(ids, " ")
}

func TestSilentInstancesGo(t *testing.T) {
	w := &watch{at: place{service: "_a._tcp", domain: "local"}, ttl: 10 * time.Second, heard: map[string]answer{}}
	now := time.Now()
	step := func(after time.Duration, gone map[string]bool, want string, labels ...string) {
		t.Helper()
		now = now.Add(after)
		var answers []*hashicorp.ServiceEntry
		for _, l := range labels {
			answers = append(answers, heardOf(t, l, instance("x")))
		}
		answers = append(answers, &hashicorp.ServiceEntry{Name: "tv._b._tcp.local."})
		w.take(answers, nil, now)
		w.forget(gone, now)
		if got := listed(w); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	step(0, nil, "x", "one")
	step(9*time.Second, nil, "x")
	step(time.Second, nil, "") // ten seconds of silence
	step(0, nil, "x", "one")
	step(time.Second, map[string]bool{"one": true}, "")         // its announcement, and no answer
	step(time.Second, map[string]bool{"one": true}, "x", "one") // another program's announcement, but it answers
	w.trouble = true
	step(time.Hour, nil, "x") // an outage
	step(10*time.Second, nil, "")
}

func TestLaterInstanceCounts(t *testing.T) {
	w := &watch{at: place{service: "_a._tcp", domain: "local"}, ttl: time.Minute, heard: map[string]answer{}}
	older, newer := instance("x"), instance("x")
	older.Started, newer.Started = time.Unix(1, 0), time.Unix(2, 0)
	older.Weight, newer.Weight = 1, 2
	w.take([]*hashicorp.ServiceEntry{heardOf(t, "a", older), heardOf(t, "b", newer), heardOf(t, "c", older)}, nil, time.Now())
	if got := w.list(); len(got) != 1 || got["x"].Weight != 2 {
		t.Errorf("listed %+v", got)
	}
	delete(w.heard, "b")
	for range 20 {
		if got := w.list(); got["x"].Weight != 1 {
			t.Errorf("listed %+v", got)
		}
	}
}

// TestListenerHears: the listener passes on the announcements of its services, in any case
// of letters, and nothing else.
func TestListenerHears(t *testing.T) {
	l := newListener("*", quiet)
	e := l.add("_a._tcp.local.")
	for _, q := range []string{"x._gone._b._tcp.local.", "_a._tcp.local.", "x._old._a._tcp.local.", "", "."} {
		l.Records(dns.Question{Name: q})
	}
	if len(e.news) > 0 {
		t.Error("it heard something else")
	}
	l.Records(dns.Question{Name: "X._Gone._A._tcp.local."})
	l.Records(dns.Question{Name: "y._new._a._tcp.local."})
	if len(e.news) != 1 || !reflect.DeepEqual(e.left(), map[string]bool{"x": true}) || len(e.left()) != 0 {
		t.Error("it heard something else")
	}
	l.remove("_a._tcp.local.", e)
	if len(l.receivers) != 0 {
		t.Error("it still listens")
	}
}

func TestRecords(t *testing.T) {
	at, err := parse(mustParse(t, "mdns://lo/prod/Arith"))
	if err != nil {
		t.Fatal(err)
	}
	e := newEntry(at, 20*time.Second, quiet)
	if got := e.zone.Records(dns.Question{Name: at.fqdn(), Qtype: dns.TypePTR}); got != nil {
		t.Errorf("it answers before it is asked to: %v", got)
	}
	records, _, err := e.records(instance("a"), nil)
	if err != nil {
		t.Fatal(err)
	}
	e.zone.records.Store(records)
	for _, name := range []string{"_Arith._tcp.Prod.local.", strings.ToUpper(e.label) + "._arith._tcp.prod.local."} {
		kinds := map[uint16]int{}
		for _, rr := range e.zone.Records(dns.Question{Name: name, Qtype: dns.TypePTR}) {
			kinds[rr.Header().Rrtype]++
			if rr.Header().Ttl != 20 {
				t.Errorf("%v: a time to live of its own", rr)
			}
		}
		if !reflect.DeepEqual(kinds, map[uint16]int{dns.TypePTR: 1, dns.TypeSRV: 1, dns.TypeTXT: 1, dns.TypeA: 1}) {
			t.Errorf("%s: %v", name, kinds)
		}
	}
	huge := instance("a")
	huge.Tags = map[string]string{"a": strings.Repeat("x", maxPacket)}
	if _, _, err := e.records(huge, nil); err == nil || !strings.Contains(err.Error(), "limit 8952") || strings.Contains(err.Error(), "%!") {
		t.Errorf("a huge instance: %v", err)
	}
}

func TestPort(t *testing.T) {
	for address, want := range map[string]int{"h:80": 80, "[::1]:81": 81, "/run/a.sock": 9, "h:0": 9, "h:http": 9} {
		in := tandem.Instance{Endpoints: []tandem.Endpoint{{Transport: "t", Address: "x"}, {Transport: "t", Address: address}}}
		if got := port(in); got != want {
			t.Errorf("%s: %d", address, got)
		}
	}
	if ips := addresses(nil); len(ips) != 1 || !ips[0].Equal(net.IPv4(127, 0, 0, 1)) {
		t.Errorf("no interface: %v", ips)
	}
}

func TestNoInterface(t *testing.T) {
	r, err := New("mdns://nosuch0/a")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.Register(t.Context(), instance("a")); err == nil || !strings.Contains(err.Error(), `"nosuch0"`) {
		t.Errorf("Register: %v", err)
	}
	if _, err := Resolver().(*Registry).Register(t.Context(), instance("a")); err == nil {
		t.Error("a resolver registers")
	}
}
