package dns

import (
	"context"
	"encoding/hex"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// response is a response with a question, a CNAME with the time to live 300, and an A record with 7.
const response = "1234 8180 0001 0002 0000 0000" + // header
	"03737663 0474657374 00 0001 0001" + // svc.test A
	"c00c 0005 0001 0000012c 0004 0161c010" + // CNAME a.test
	"c026 0001 0001 00000007 0004 7f000001" // A

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The least time to live of the answers counts.
func TestLeastTTL(t *testing.T) {
	whole := unhex(t, response)
	if ttl, ok := leastTTL(whole); ttl != 7 || !ok {
		t.Errorf("%d, %v", ttl, ok)
	}
	for end := range whole {
		if ttl, ok := leastTTL(whole[:end]); ok {
			t.Errorf("%d of the first %d bytes", ttl, end)
		}
	}
	query := unhex(t, strings.Replace(response, "8180", "0100", 1))
	if _, ok := leastTTL(query); ok {
		t.Error("a query has no time to live")
	}
	negative := unhex(t, strings.Replace(response, "00000007", "80000000", 1))
	if ttl, ok := leastTTL(negative); ttl != 0 || !ok {
		t.Errorf("with the highest bit set: %d, %v", ttl, ok)
	}
}

func FuzzLeastTTL(f *testing.F) {
	f.Add(unhex(f, response))
	f.Add(unhex(f, "1234 8180 0001 0001 0000 0000 c0"))
	f.Fuzz(func(t *testing.T, message []byte) {
		if _, ok := leastTTL(message); ok && len(message) < 12 {
			t.Fatal("it has no header")
		}
	})
}

// A tap on a connection of TCP finds the messages, however they are cut.
func TestTapOfStream(t *testing.T) {
	message := unhex(t, response)
	wire := append([]byte{0, byte(len(message))}, message...)
	wire = append(wire, wire...)
	here, there := net.Pipe()
	defer here.Close()
	go func() {
		for _, b := range wire {
			there.Write([]byte{b})
		}
		there.Close()
	}()
	s := &tapStream{Conn: here, tap: new(tap)}
	got := 0
	for buf := make([]byte, 7); ; {
		n, err := s.Read(buf)
		if got += n; err != nil {
			break
		}
	}
	if ttl, known := s.tap.ttl(); got != len(wire) || !known || ttl != 7*time.Second || len(s.read) != 0 {
		t.Errorf("%d bytes, %v, %v, %d left", got, ttl, known, len(s.read))
	}
}

// A name is looked up again after its time to live, a second at least, and the interval at most.
func TestLooksUpWhenTheTimeToLiveHasPassed(t *testing.T) {
	for _, tc := range []struct{ interval, ttl, want time.Duration }{
		{30 * time.Second, 5 * time.Second, 5 * time.Second},
		{30 * time.Second, 0, time.Second},
		{30 * time.Second, time.Hour, 30 * time.Second},
		{200 * time.Millisecond, 5 * time.Second, 200 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			var lookups atomic.Int32
			r := resolver{&net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
				lookups.Add(1)
				here, there := net.Pipe()
				go serveStream(there, uint32(tc.ttl/time.Second))
				return here, nil
			}}}
			watched(t, r, "dns://svc.test.:80?interval="+tc.interval.String())
			<-time.After(20 * tc.want) // on the clock of the bubble
			synctest.Wait()
			if n := lookups.Load() / 2; n < 17 || n > 24 { // A and AAAA
				t.Errorf("interval %v, time to live %v: %d lookups in %v", tc.interval, tc.ttl, n, 20*tc.want)
			}
		})
	}
}

// serveStream answers queries on a connection of TCP.
func serveStream(conn net.Conn, ttl uint32) {
	defer conn.Close()
	buf := make([]byte, 1500)
	for {
		n, err := conn.Read(buf)
		if err != nil {
			return
		}
		resp := answer(buf[2:n])
		if resp[7] == 1 { // one answer, whose time to live is before the length and the data
			data := 4
			if resp[len(resp)-data-1] != byte(data) {
				data = 16
			}
			at := len(resp) - data - 2 - 4
			resp[at], resp[at+1], resp[at+2], resp[at+3] = byte(ttl>>24), byte(ttl>>16), byte(ttl>>8), byte(ttl)
		}
		conn.Write(append([]byte{byte(len(resp) >> 8), byte(len(resp))}, resp...))
	}
}

// A name that had records and has none any more is an empty list; one that never had any is an
// error, as it may be misspelled. What only may mean so is an error.
func TestNotFoundAfterRecordsIsAnEmptyList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns, gone := &fakeDNS{}, &net.DNSError{Err: "no such host", IsNotFound: true}
		dns.set(gone)
		snapshots := watched(t, ResolverWith(dns), "dns://svc:80?interval=10s")
		if s := <-snapshots; !errors.Is(s.Err, gone) {
			t.Errorf("before any record: %+v", s)
		}
		dns.set(nil, "10.0.0.1")
		for s := <-snapshots; s.Err != nil; {
			s = <-snapshots
		}
		dns.set(&net.DNSError{Err: "server misbehaving", IsTemporary: true})
		if s := <-snapshots; s.Err == nil {
			t.Errorf("a failure: %+v", s)
		}
		dns.set(gone)
		s := <-snapshots
		for s.Err != nil && !errors.Is(s.Err, gone) {
			s = <-snapshots
		}
		if s.Err != nil || len(s.Instances) != 0 || s.Revision != 2 {
			t.Errorf("no record any more: %+v", s)
		}
	})
}

// The servers of a target are asked in turn, instead of the system's, for the name as it stands.
func TestAsksTheServersOfTheTarget(t *testing.T) {
	one, two := newNameServer(t), newNameServer(t)
	target := "dns://svc.test:80?server=" + one.conn.LocalAddr().String() + "," + two.conn.LocalAddr().String()
	if s, err := first(t, Resolver(), target); err != nil || ids(s.Instances) != "tcp://127.0.0.7:80 tcp://[::7]:80" {
		t.Errorf("%+v, %v", s, err)
	}
	one.conn.Close() // the other one still answers
	if s, err := first(t, Resolver(), target); err != nil || ids(s.Instances) != "tcp://127.0.0.7:80 tcp://[::7]:80" {
		t.Errorf("without the first: %+v, %v", s, err)
	}
	for server, want := range map[string]string{"": "", "localhost:53": "bad server", "1.1.1.1": "bad server", "1.1.1.1:53,": "bad server"} {
		_, err := parse(mustParse(t, "dns://a:80?server="+server))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", server, err)
		}
	}
	err := ResolverWith(&fakeDNS{ips: []netip.Addr{}}).Watch(t.Context(), mustParse(t, target), nil)
	if err == nil || !strings.Contains(err.Error(), "needs a *net.Resolver") {
		t.Errorf("a Lookup that asks its own servers: %v", err)
	}
}
