package dns

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/adapter"
)

// fakeDNS is a Lookup whose answers a test sets. Tests in a synctest bubble
// change them between lookups.
type fakeDNS struct {
	mu    sync.Mutex
	ips   []netip.Addr
	srv   []*net.SRV
	err   error
	asked []string
}

func (f *fakeDNS) set(err error, ips ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err, f.ips = err, nil
	for _, ip := range ips {
		f.ips = append(f.ips, netip.MustParseAddr(ip))
	}
}

func (f *fakeDNS) LookupNetIP(_ context.Context, network, host string) ([]netip.Addr, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, network+" "+host)
	return f.ips, f.err
}

func (f *fakeDNS) LookupSRV(_ context.Context, service, proto, name string) (string, []*net.SRV, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, "srv "+service+proto+name)
	return name, f.srv, f.err
}

// watched runs a Watch in a goroutine of a bubble and returns its snapshots.
func watched(t *testing.T, r registry.Resolver, target string) <-chan registry.Snapshot {
	snapshots := make(chan registry.Snapshot, 100)
	go func() {
		err := r.Watch(t.Context(), mustParse(t, target), func(s registry.Snapshot) { snapshots <- s })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Watch returned %v", err)
		}
	}()
	return snapshots
}

func TestFollowsChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns := &fakeDNS{}
		dns.set(nil, "10.0.0.2", "::ffff:10.0.0.1", "10.0.0.1", "2001:db8::1")
		snapshots := watched(t, ResolverWith(dns), "dns://svc.example:80?protocol=grpc")

		s := <-snapshots
		if got := ids(s.Instances); got != "tcp://10.0.0.1:80 tcp://10.0.0.2:80 tcp://[2001:db8::1]:80" || s.Revision != 1 {
			t.Errorf("first: %q, revision %d", got, s.Revision)
		}
		if ep := s.Instances[0].Endpoints[0]; ep.Transport != "tcp" || ep.Address != "10.0.0.1:80" || ep.Protocol != "grpc" {
			t.Errorf("endpoint %+v", ep)
		}
		start := time.Now()
		dns.set(nil, "10.0.0.1")
		if s = <-snapshots; ids(s.Instances) != "tcp://10.0.0.1:80" || s.Revision != 2 {
			t.Errorf("second: %+v", s)
		}
		if d := time.Since(start); d < 27*time.Second || d > 33*time.Second {
			t.Errorf("asked again after %v", d)
		}
		<-time.After(time.Hour) // on the clock of the bubble
		synctest.Wait()
		if len(snapshots) > 0 {
			t.Errorf("delivered without a change: %+v", <-snapshots)
		}
		if dns.asked[0] != "ip svc.example" || len(dns.asked) < 100 {
			t.Errorf("asked %d times, first %q", len(dns.asked), dns.asked[0])
		}
	})
}

func TestFailureIsNotAnEmptyList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns, down := &fakeDNS{}, errors.New("no such host")
		dns.set(nil, "10.0.0.1")
		snapshots := watched(t, ResolverWith(dns), "dns://svc:80?interval=10s")
		<-snapshots

		dns.set(down)
		s := <-snapshots
		if !errors.Is(s.Err, down) || s.Revision != 1 || s.Instances != nil {
			t.Errorf("failed lookup: %+v", s)
		}
		start := time.Now()
		<-snapshots
		if d := time.Since(start); d > time.Second {
			t.Errorf("tried again after %v", d)
		}
		dns.set(nil) // an answer without addresses
		if s = <-snapshots; s.Err == nil || !strings.Contains(s.Err.Error(), "svc has no address") {
			t.Errorf("no address: %+v", s)
		}
		dns.set(nil, "10.0.0.1")
		for s.Err != nil {
			s = <-snapshots
		}
		if ids(s.Instances) != "tcp://10.0.0.1:80" || s.Revision != 1 {
			t.Errorf("after recovery: %+v", s)
		}
	})
}

func TestPause(t *testing.T) {
	q := query{interval: 30 * time.Second}
	for _, tc := range []struct {
		failures int
		random   float64
		want     time.Duration
	}{
		{0, 0, 27 * time.Second},
		{0, 0.5, 30 * time.Second},
		{1, 0, 500 * time.Millisecond},
		{1, 1, time.Second},
		{3, 1, 4 * time.Second},
		{6, 1, 30 * time.Second},
		{1 << 40, 1, 30 * time.Second},
	} {
		if got := q.pause(tc.failures, tc.random); got != tc.want {
			t.Errorf("pause(%d, %v) = %v, want %v", tc.failures, tc.random, got, tc.want)
		}
	}
}

func TestServiceRecords(t *testing.T) {
	dns := &fakeDNS{srv: []*net.SRV{
		{Target: "a.example.", Port: 1, Priority: 10, Weight: 60},
		{Target: "backup.example.", Port: 2, Priority: 20, Weight: 1},
		{Target: "b.example.", Port: 3, Priority: 10, Weight: 65535},
		{Target: "c.example.", Port: 4, Priority: 10},
	}, err: errors.New("some other record made no sense")}
	s, err := first(t, ResolverWith(dns), "dns://_grpc._tcp.example")
	if err != nil || s.Err != nil {
		t.Fatal(err, s.Err)
	}
	if got := ids(s.Instances); got != "tcp://a.example:1 tcp://b.example:3 tcp://c.example:4" {
		t.Fatalf("listed %q", got)
	}
	if a, b, c := s.Instances[0].Weight, s.Instances[1].Weight, s.Instances[2].Weight; a != 60 || b != 10000 || c != 1 {
		t.Errorf("weights %d, %d, %d", a, b, c)
	}
	if dns.asked[0] != "srv _grpc._tcp.example" {
		t.Errorf("asked %q", dns.asked)
	}
}

func TestServiceRecordsMissing(t *testing.T) {
	dns := &fakeDNS{}
	if s, _ := first(t, ResolverWith(dns), "dns://_a._tcp.b"); s.Err == nil || !strings.Contains(s.Err.Error(), "no SRV record") {
		t.Errorf("no record: %+v", s)
	}
	dns.srv = []*net.SRV{{Target: "."}}
	if s, _ := first(t, ResolverWith(dns), "dns://_a._tcp.b"); s.Err != nil || len(s.Instances) != 0 || s.Revision != 1 {
		t.Errorf("the service is said not to exist: %+v", s)
	}
}

// stuckDNS never answers.
type stuckDNS struct{ fakeDNS }

func (*stuckDNS) LookupNetIP(ctx context.Context, _, _ string) ([]netip.Addr, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestLookupHasADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		s := <-watched(t, ResolverWith(new(stuckDNS)), "dns://svc:80")
		if !errors.Is(s.Err, context.DeadlineExceeded) || time.Since(start) != timeout {
			t.Errorf("after %v: %+v", time.Since(start), s)
		}
	})
}

// The real resolver of package net, asking a real name server over UDP.
func TestOverUDP(t *testing.T) {
	server := newNameServer(t)
	resolver := &net.Resolver{PreferGo: true, Dial: server.dial}

	s, err := first(t, ResolverWith(resolver), "dns://svc.test:80")
	if err != nil || s.Err != nil || ids(s.Instances) != "tcp://127.0.0.7:80 tcp://[::7]:80" {
		t.Errorf("addresses: %+v, %v", s, err)
	}
	s, err = first(t, ResolverWith(resolver), "dns://_x._tcp.svc.test?transport=tls")
	if err != nil || s.Err != nil || ids(s.Instances) != "tls://svc.test:8080" {
		t.Errorf("services: %+v, %v", s, err)
	}
	s, err = first(t, ResolverWith(resolver), "dns://other.test:80")
	var notFound *net.DNSError
	if err != nil || !errors.As(s.Err, &notFound) || !notFound.IsNotFound {
		t.Errorf("unknown name: %+v, %v", s, err)
	}
}

// A nameServer answers for svc.test. It implements as much of RFC 1035 as the test needs.
type nameServer struct{ conn net.PacketConn }

func newNameServer(t *testing.T) *nameServer {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("no loopback: %v", err)
	}
	done := make(chan struct{})
	s := &nameServer{conn}
	go func() {
		defer close(done)
		s.serve()
	}()
	t.Cleanup(func() {
		conn.Close()
		<-done
	})
	return s
}

// dial ignores the address that the machine's configuration names.
func (s *nameServer) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "udp", s.conn.LocalAddr().String())
}

func (s *nameServer) serve() {
	buf := make([]byte, 1500)
	for {
		n, from, err := s.conn.ReadFrom(buf)
		if err != nil {
			return
		}
		s.conn.WriteTo(answer(buf[:n]), from)
	}
}

// answer returns the response to a query of one question.
func answer(query []byte) []byte {
	const header = 12
	end := header
	var labels []string
	for query[end] != 0 {
		n := int(query[end])
		labels = append(labels, string(query[end+1:end+1+n]))
		end += 1 + n
	}
	kind := binary.BigEndian.Uint16(query[end+1:])
	question := query[header : end+5] // name, its final zero, type, class
	data, known := record(strings.Join(labels, "."), kind)

	resp := append([]byte(nil), query[:2]...) // id
	resp = append(resp, 0x84, 0x00)           // response, authoritative
	if !known {
		resp[3] = 3 // no such name
	}
	count := byte(0)
	if data != nil {
		count = 1
	}
	resp = append(resp, 0, 1, 0, count, 0, 0, 0, 0) // questions, answers, none else
	resp = append(resp, question...)
	if data != nil {
		resp = append(resp, 0xc0, header)                  // the name asked for
		resp = append(resp, question[len(question)-4:]...) // type, class
		resp = append(resp, 0, 0, 0, 0)                    // time to live
		resp = binary.BigEndian.AppendUint16(resp, uint16(len(data)))
		resp = append(resp, data...)
	}
	return resp
}

// record returns the data of the one record of that type, nil when there is
// none, and whether the name exists.
func record(name string, kind uint16) (data []byte, known bool) {
	const a, aaaa, srv = 1, 28, 33
	switch {
	case name == "svc.test" && kind == a:
		return []byte{127, 0, 0, 7}, true
	case name == "svc.test" && kind == aaaa:
		return append(make([]byte, 15), 7), true
	case name == "_x._tcp.svc.test" && kind == srv:
		return append([]byte{0, 1, 0, 2, 0x1f, 0x90}, "\x03svc\x04test\x00"...), true
	}
	return nil, name == "svc.test"
}

// When the client can reach no instance, the name is looked up at once, and at growing
// intervals while that continues.
func TestLooksUpAtOnceWhenUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns := &fakeDNS{}
		dns.set(nil, "10.0.0.1")
		now := make(chan struct{})
		snapshots := make(chan registry.Snapshot, 100)
		poller := ResolverWith(dns).(adapter.Poller)
		go poller.Poll(t.Context(), mustParse(t, "dns://svc:80?interval=1h"), now, func(s registry.Snapshot) { snapshots <- s })
		<-snapshots
		time.Sleep(time.Minute)
		dns.set(nil, "10.0.0.2")
		start := time.Now()
		now <- struct{}{}
		if s := <-snapshots; ids(s.Instances) != "tcp://10.0.0.2:80" || time.Since(start) > 0 {
			t.Errorf("looked up %v after it was asked for: %v", time.Since(start), s.Instances)
		}
		asked := func() int {
			dns.mu.Lock()
			defer dns.mu.Unlock()
			return len(dns.asked)
		}
		before := asked()
		for time.Since(start) < 10*time.Minute {
			select {
			case now <- struct{}{}:
			case <-time.After(time.Second):
			}
		}
		if n := asked() - before; n < 8 || n > 13 { // 1, 2, 4 … seconds, or half of that
			t.Errorf("looked up %d times in ten minutes without a server", n)
		}
		time.Sleep(2 * time.Hour) // instances can be reached again
		dns.set(nil, "10.0.0.3")
		start = time.Now()
		now <- struct{}{}
		if <-snapshots; time.Since(start) > time.Second {
			t.Errorf("looked up %v after it was asked for", time.Since(start))
		}
	})
}

// For a target that can never work, Watch returns at once with an error that says why.
func TestBadTargets(t *testing.T) {
	for target, reason := range map[string]string{
		"dns://a":                  "missing port",
		"dns://a:0":                "bad port",
		"dns://:80":                "no host",
		"dns://8.8.8.8/a:80":       "without a path",
		"dns://a:80?interval=1":    "bad interval",
		"dns://a:80?interval=99ms": "bad interval",
		"dns://a:80?weight=1":      "unknown option",
	} {
		_, err := first(t, Resolver(), target)
		if err == nil || !strings.Contains(err.Error(), reason) || !strings.HasPrefix(err.Error(), "target ") {
			t.Errorf("%s: %v, want %q", target, err, reason)
		}
		if checked := Resolver().(registry.Checker).Check(mustParse(t, target)); err == nil || checked == nil || checked.Error() != err.Error() {
			t.Errorf("%s: Check says %v, Watch %v", target, checked, err)
		}
	}
}

// Check does not look names up.
func TestCheckAcceptsGoodTargets(t *testing.T) {
	for _, target := range []string{"dns://a:80?interval=1s", "dns://_rpc._tcp.a"} {
		if err := Resolver().(registry.Checker).Check(mustParse(t, target)); err != nil {
			t.Error(err)
		}
	}
}

// A target that is accepted has a name to look up, and an interval that is not too short.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"dns://a:1", "dns://[::1]:80", "dns://_x._tcp.y?interval=1s", "dns://_:http", "dns://a:80?transport=x&protocol=y"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		target, err := registry.ParseTarget(s)
		if err != nil {
			return
		}
		if q, err := parse(target); err == nil && (q.name == "" || q.interval < minInterval) {
			t.Fatalf("%q: %+v", s, q)
		}
	})
}
