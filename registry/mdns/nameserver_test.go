//go:build !integration

package mdns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/tandem-rpc/tandem/registry/adapter"
	names "github.com/tandem-rpc/tandem/registry/dns"
)

// The tests here are of package registry/dns: they need a name server with the whole protocol. It
// uses package dns, which this module requires and the core does not.

// nameServer is a name server on the loopback, by UDP and TCP, with one zone. Tests set how
// it fails.
type nameServer struct {
	addr string

	mu    sync.Mutex
	zone  []dns.RR
	rcode int
	delay time.Duration
	asked map[string]int // number of questions by transport
}

func serveNames(t testing.TB) *nameServer {
	s := &nameServer{asked: map[string]int{}}
	udp, tcp := listenBoth(t)
	s.addr = udp.LocalAddr().String()
	for _, server := range []*dns.Server{{PacketConn: udp, Handler: s}, {Listener: tcp, Handler: s}} {
		ready, ended := make(chan struct{}), make(chan struct{})
		server.NotifyStartedFunc = func() { close(ready) }
		go func() {
			defer close(ended)
			_ = server.ActivateAndServe()
		}()
		<-ready
		t.Cleanup(func() {
			_ = server.Shutdown()
			<-ended
		})
	}
	return s
}

// listenBoth listens at one port by UDP and TCP. A port that is free for one may be in use
// for the other, so it tries several.
func listenBoth(t testing.TB) (net.PacketConn, net.Listener) {
	var failed error
	for range 100 {
		udp, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		tcp, err := net.Listen("tcp", udp.LocalAddr().String())
		if err == nil {
			return udp, tcp
		}
		failed = err
		_ = udp.Close()
	}
	t.Fatal("no port is free for both UDP and TCP: ", failed)
	return nil, nil
}

// set changes the answers from now on: their code, their delay, and the records.
func (s *nameServer) set(rcode int, delay time.Duration, records ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rcode, s.delay, s.zone = rcode, delay, nil
	for _, r := range records {
		rr, err := dns.NewRR(r)
		if err != nil {
			panic(err)
		}
		s.zone = append(s.zone, rr)
	}
}

func (s *nameServer) ServeDNS(w dns.ResponseWriter, query *dns.Msg) {
	s.mu.Lock()
	s.asked[w.LocalAddr().Network()]++
	reply := new(dns.Msg).SetRcode(query, s.rcode)
	delay := s.delay
	for _, rr := range s.zone {
		q := query.Question[0]
		if h := rr.Header(); strings.EqualFold(h.Name, q.Name) && h.Rrtype == q.Qtype {
			reply.Answer = append(reply.Answer, rr)
		}
	}
	s.mu.Unlock()
	if w.LocalAddr().Network() == "udp" {
		reply.Truncate(dns.MinMsgSize)
	}
	if delay > 0 {
		<-time.After(delay)
	}
	_ = w.WriteMsg(reply) // the client may have closed its socket
}

// resolver returns package net's resolver, which asks this server.
func (s *nameServer) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, s.addr)
	}}
}

// kept follows a target through a Keeper, as a client does.
func kept(t *testing.T, s *nameServer, target string) func(what string, ok func(adapter.View) bool) time.Duration {
	views := make(chan adapter.View, 100)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		k := &adapter.Keeper{Grace: time.Millisecond}
		ended <- k.Watch(ctx, names.ResolverWith(s.resolver()), mustParse(t, target), func(v adapter.View) { views <- v })
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Watch returned %v", err)
		}
	})
	return func(what string, ok func(adapter.View) bool) time.Duration {
		t.Helper()
		start, timeout := time.Now(), time.After(12*time.Second)
		for {
			select {
			case v := <-views:
				if ok(v) {
					return time.Since(start)
				}
			case <-timeout:
				t.Fatalf("no %s", what)
			}
		}
	}
}

// lists returns a condition: the view has these instances, and is stale or not.
func lists(stale bool, want ...string) func(adapter.View) bool {
	return func(v adapter.View) bool {
		var ids []string
		for _, in := range v.Instances {
			ids = append(ids, fmt.Sprintf("%s*%d", in.ID, in.Weight))
		}
		return (v.Stale != nil) == stale && slices.Equal(ids, want)
	}
}

const one = "svc.test. 1 IN A 10.0.0.1"

func TestAddressesChange(t *testing.T) {
	s := serveNames(t)
	s.set(dns.RcodeSuccess, 0, one, "svc.test. 1 IN AAAA 2001:db8::1")
	await := kept(t, s, "dns://svc.test.:80?interval=500ms")
	await("addresses of both kinds", lists(false, "tcp://10.0.0.1:80*0", "tcp://[2001:db8::1]:80*0"))
	s.set(dns.RcodeSuccess, 0, "svc.test. 1 IN A 10.0.0.2", "svc.test. 1 IN AAAA 2001:db8::1")
	if took := await("moved address", lists(false, "tcp://10.0.0.2:80*0", "tcp://[2001:db8::1]:80*0")); took > 6*time.Second {
		t.Errorf("moved after %v, with a time to live of 1 s", took)
	}
}

// TestNameServerFails: the last list stays if the name server fails, refuses, or does not answer. That
// there is no such name is an answer, an empty list, which clients doubt at first: see adapter.Keeper.
func TestNameServerFails(t *testing.T) {
	for name, tc := range map[string]struct {
		rcode int
		delay time.Duration
		stale bool
	}{
		"no such name": {dns.RcodeNameError, 0, false},
		"no record":    {dns.RcodeSuccess, 0, true},
		"failure":      {dns.RcodeServerFailure, 0, true},
		"refusal":      {dns.RcodeRefused, 0, true},
		"slow server":  {dns.RcodeSuccess, 6 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.delay > 0 && testing.Short() {
				t.Skip("a lookup may take five seconds")
			}
			s := serveNames(t)
			s.set(dns.RcodeSuccess, 0, one)
			await := kept(t, s, "dns://svc.test.:80?interval=100ms")
			await("list", lists(false, "tcp://10.0.0.1:80*0"))
			s.set(tc.rcode, tc.delay)
			await("the same list", lists(tc.stale, "tcp://10.0.0.1:80*0"))
			s.set(dns.RcodeSuccess, 0, one, "svc.test. 1 IN A 10.0.0.2")
			await("new list", lists(false, "tcp://10.0.0.1:80*0", "tcp://10.0.0.2:80*0"))
		})
	}
}

func TestServiceNames(t *testing.T) {
	s := serveNames(t)
	s.set(dns.RcodeSuccess, 0,
		"_x._tcp.svc.test. 1 IN SRV 10 60 8080 a.svc.test.",
		"_x._tcp.svc.test. 1 IN SRV 10 0 8081 b.svc.test.",
		"_x._tcp.svc.test. 1 IN SRV 20 1 8082 backup.svc.test.")
	await := kept(t, s, "dns://_x._tcp.svc.test.?interval=200ms")
	await("best priority", lists(false, "tcp://a.svc.test:8080*60", "tcp://b.svc.test:8081*1"))
	s.set(dns.RcodeSuccess, 0, "_x._tcp.svc.test. 1 IN SRV 20 1 8082 backup.svc.test.")
	await("the next priority", lists(false, "tcp://backup.svc.test:8082*1"))
	s.set(dns.RcodeServerFailure, 0)
	await("the same list, stale", lists(true, "tcp://backup.svc.test:8082*1"))
}

// TestManyNames: for an answer that does not fit into a datagram, the query is sent again by
// TCP.
func TestManyNames(t *testing.T) {
	s := serveNames(t)
	records := make([]string, 200)
	for i := range records {
		records[i] = fmt.Sprintf("svc.test. 1 IN A 10.0.1.%d", i)
	}
	s.set(dns.RcodeSuccess, 0, records...)
	await := kept(t, s, "dns://svc.test.:80")
	await("long list", func(v adapter.View) bool { return len(v.Instances) == len(records) })
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked["tcp"] == 0 {
		t.Error("nobody asked by TCP")
	}
}
