package load

import (
	"crypto/tls"
	"errors"
	"maps"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/bench/floor"
	"github.com/tandem-rpc/tandem/bench/message"
)

func TestOptionsAreInTheName(t *testing.T) {
	for name, want := range map[string]Options{
		"tandem":                {},
		"tandem+tls":            {"tls": ""},
		"tandem+bytes=600+gzip": {"bytes": "600", "gzip": ""},
	} {
		if got := parseOptions(name); !maps.Equal(got, want) {
			t.Errorf("%s has the options %v, want %v", name, got, want)
		}
	}
	o := parseOptions("tandem+bytes=600+gzip")
	if o.Bytes("bytes") != 600 || o.Bytes("stream") != 0 || !o.Has("gzip") || o.Has("zstd") {
		t.Errorf("%v: %d bytes, a stream of %d, gzip %t, zstd %t", o, o.Bytes("bytes"), o.Bytes("stream"), o.Has("gzip"), o.Has("zstd"))
	}
	if err := o.check([]string{"gzip", "bytes"}); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]string{"x+tls": `no option "tls"`, "x+bytes=many": "number of bytes", "x+bytes=0": "number of bytes"} {
		if err := parseOptions(name).check([]string{"bytes"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q in it", name, err, want)
		}
	}
}

// hand is an Exchanger that gives what it holds.
type hand struct {
	b   []byte
	err error
}

func (h hand) Exchange() ([]byte, error) { return h.b, h.err }
func (hand) Close() error                { return nil }

func TestCallBytesChecksWhatCame(t *testing.T) {
	const size = 600
	good := Payload(size)
	wrong := append([]byte{}, good...)
	wrong[size-1] ^= 1
	lost := errors.New("lost")
	for name, c := range map[string]struct {
		hand
		right bool
	}{
		"the payload":     {hand{b: good}, true},
		"a byte is wrong": {hand{b: wrong}, false},
		"too short":       {hand{b: good[:size-1]}, false},
		"nothing":         {hand{}, false},
		"an error":        {hand{good, lost}, false},
	} {
		if err := callOnce(CallBytes(c.hand, size), nil, new(message.BenchmarkMessage)); (err == nil) != c.right {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if short := Payload(3); len(short) != 3 {
		t.Errorf("a payload of 3 bytes has %d", len(short))
	}
}

func TestServerAndClientTrustEachOther(t *testing.T) {
	server, client, err := TLS()
	if err != nil {
		t.Fatal(err)
	}
	_, again, err := TLS() // as in another process
	if err != nil {
		t.Fatal(err)
	}
	client.ServerName = "127.0.0.1" // where the server is, and not who
	handshake := func(config *tls.Config) error {
		ours, theirs := net.Pipe()
		defer ours.Close()
		go func() { _ = tls.Server(theirs, server).Handshake(); _ = theirs.Close() }()
		return tls.Client(ours, config).Handshake()
	}
	if err := handshake(again); err != nil {
		t.Error(err)
	}
	if handshake(client) == nil {
		t.Error("a client took the server for another host")
	}
}

func TestHoldAndBurst(t *testing.T) {
	hosts := 1
	if runtime.GOOS == "linux" { // elsewhere only 127.0.0.1 is there
		hosts = 3
	}
	sys := System{Serve: floor.ServeMux, Dial: DialFor(floor.DialMux)}
	server := startPeer(t, sys, "server", "-hosts="+string(rune('0'+hosts)))
	addr := server.expect(EventReady).Addr
	settle := func() Memory { server.tell(OpSettle); return *server.expect(EventMemory).Memory }
	before := settle()

	const count = 20
	h := Hold{Plan: Plan{Duration: 20 * time.Millisecond}, Addr: addr, Hosts: hosts, Count: count, Pace: 10000}
	holder := startPeer(t, sys, h.Args()...)
	holder.expect(EventHeld)
	if held := settle().Sockets - before.Sockets; runtime.GOOS == "linux" && held != 2*count { // both ends are ours
		t.Errorf("%d sockets for %d connections", held, count)
	}
	holder.tell(OpEach)
	if r := holder.expect(EventResult).Result; r.Calls != count || r.Failures != 0 {
		t.Errorf("%d calls and %d failures (%s), want one call on each of %d", r.Calls, r.Failures, r.FirstError, count)
	}
	holder.say(Command{Op: OpSome, N: 5})
	if r := holder.expect(EventResult).Result; r.Calls == 0 || r.Failures != 0 || r.Latency.P99 <= 0 {
		t.Errorf("calls on some: %+v", r)
	}

	burster := startPeer(t, sys, "burst", "-addr="+addr)
	burster.say(Command{Op: OpBurst, N: 7})
	if r := burster.expect(EventResult).Result; r.Calls != 7 || r.Usage.Wall <= 0 {
		t.Errorf("a burst of 7: %+v", r)
	}
	for _, p := range []*peer{holder, burster, server} {
		_ = p.in.Close()
		if err := <-p.ended; err != nil {
			t.Error(err)
		}
	}
}

func TestHoldRefusesWhatCannotBeMeant(t *testing.T) {
	for _, args := range [][]string{
		{"hold", "-count=0"},
		{"hold", "-hosts=1000"},
		{"hold", "-pace=0"},
		{"server", "-hosts=0"},
	} {
		p := startPeer(t, fakeSystem(nil), args...)
		p.expect(EventFailed)
		if err := <-p.ended; err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}

func TestLargeCallsGoBesideTheMeasuredOnes(t *testing.T) {
	c := &client{plan: Plan{Callers: 1}, conns: []Caller{fake{}}, rec: newRecorder(), epoch: time.Now(), beside: 1000}
	c.start()
	for c.large.Load() < 3 {
		runtime.Gosched()
	}
	c.stop()
	if size := message.NewLarge(1000).SizeVT(); size < 1000 || size > 1000+message.Size {
		t.Errorf("a large message of 1000 bytes has %d", size)
	}
}
