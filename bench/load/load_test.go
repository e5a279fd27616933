package load

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem/bench/floor"
	"github.com/tandem-rpc/tandem/bench/message"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a system without a network.
type fake struct{ err error }

func (f fake) Call(req, reply *message.BenchmarkMessage) error {
	message.Share(reply, message.New())
	message.Answer(reply)
	return f.err
}

func (fake) Close() error { return nil }

func fakeSystem(err error) System {
	return System{Dial: func(string) (Caller, error) { return fake{err}, nil }}
}

// peer is a running peer and the harness's end of its pipes.
type peer struct {
	t     *testing.T
	in    *io.PipeWriter
	out   *bufio.Scanner
	ended chan error
}

func startPeer(t *testing.T, sys System, args ...string) *peer {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	p := &peer{t: t, in: inW, out: bufio.NewScanner(outR), ended: make(chan error, 1)}
	go func() {
		p.ended <- run(sys, args, newControl(inR, outW))
		_ = outW.Close()
		_ = inR.Close()
	}()
	t.Cleanup(func() { _ = inW.Close(); _ = outR.Close() })
	return p
}

func (p *peer) tell(op string) {
	p.t.Helper()
	if err := json.NewEncoder(p.in).Encode(Command{Op: op}); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) expect(event string) Report {
	p.t.Helper()
	var r Report
	if !p.out.Scan() {
		p.t.Fatalf("the peer ended before %q", event)
	}
	if err := json.Unmarshal(p.out.Bytes(), &r); err != nil || r.Event != event {
		p.t.Fatalf("the peer said %s, want %q", p.out.Text(), event)
	}
	return r
}

// clientArgs returns the arguments of a client with a short plan.
func clientArgs(addr string, conns int) []string {
	return Plan{Addrs: []string{addr}, Callers: 4, Conns: conns, Warmup: time.Millisecond, Duration: 20 * time.Millisecond, Calls: 100}.Args()
}

func measure(p *peer) Result {
	p.expect(EventWarm)
	p.tell(OpStart)
	p.expect(EventMeasured)
	p.tell(OpStop)
	return *p.expect(EventResult).Result
}

func TestServerAndClientMeasure(t *testing.T) {
	sys := System{Serve: floor.ServeMux, Dial: DialFor(floor.DialMux)}
	server := startPeer(t, sys, "server")
	addr := server.expect(EventReady).Addr
	server.tell(OpMark)
	before := *server.expect(EventUsage).Usage
	res := measure(startPeer(t, sys, clientArgs(addr, 2)...))
	server.tell(OpMark)
	used := server.expect(EventUsage).Usage.Sub(before)

	if res.Calls < 100 || res.Failures != 0 {
		t.Errorf("%d calls and %d failures (%s), want at least 100 and none", res.Calls, res.Failures, res.FirstError)
	}
	l := res.Latency
	if !slices.IsSorted([]time.Duration{1, l.Min, l.P50, l.P90, l.P99, l.P999, l.Max}) {
		t.Errorf("latencies %+v are not in order", l)
	}
	for name, u := range map[string]Usage{"client": res.Usage, "server": used} {
		if u.CPU <= 0 || u.Wall < 20*time.Millisecond || u.Mallocs == 0 {
			t.Errorf("%s used %+v", name, u)
		}
		if runtime.GOOS == "linux" && (u.Reads == 0 || u.Writes == 0) {
			t.Errorf("%s read and wrote nothing: %+v", name, u)
		}
	}
	_ = server.in.Close()
	if err := <-server.ended; err != nil {
		t.Errorf("the server ended with %v when the harness went", err)
	}
}

func TestFailuresAreCountedAndNotTimed(t *testing.T) {
	args := Plan{Addrs: []string{"x:1"}, Callers: 2, Duration: 10 * time.Millisecond}.Args()
	res := measure(startPeer(t, fakeSystem(errors.New("out of order")), args...))
	if res.Calls != 0 || res.Failures == 0 || res.FirstError != "out of order" {
		t.Errorf("%d calls, %d failures, the first %q", res.Calls, res.Failures, res.FirstError)
	}
}

func TestExclusiveSystemsCannotShare(t *testing.T) {
	sys := fakeSystem(nil)
	sys.Exclusive = true
	startPeer(t, sys, clientArgs("", 2)...).expect(EventUnsupported)
	if res := measure(startPeer(t, sys, clientArgs("", 0)...)); res.Calls == 0 {
		t.Error("no calls with one connection a caller")
	}
}

func TestWhatGoesWrongIsReported(t *testing.T) {
	refuse := System{
		Dial:  func(string) (Caller, error) { return nil, errors.New("nobody there") },
		Serve: func(ln net.Listener) error { _ = ln.Close(); return errors.New("no server today") },
	}
	for want, args := range map[string][]string{
		"nobody there":    clientArgs("x:1", 1),
		"be a caller":     Plan{}.Args(),
		"2 servers":       Plan{Addrs: []string{"x:1", "y:1"}, Callers: 4, Conns: 1}.Args(),
		"no server today": {"server"},
		"subcommand":      {"observer"},
	} {
		p := startPeer(t, refuse, args...)
		var last string
		for p.out.Scan() {
			last = p.out.Text()
		}
		err := <-p.ended
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(last, EventFailed) {
			t.Errorf("%v: ended with %v, last said %s; want %q", args, err, last, want)
		}
		_ = p.in.Close()
	}
}

// A server with work to do delays each response by it.
func TestWorkDelaysResponses(t *testing.T) {
	const work = 5 * time.Millisecond
	sys := System{Serve: floor.ServeMux, Dial: DialFor(floor.DialMux)}
	server := startPeer(t, sys, "server", "-work="+work.String())
	t.Cleanup(func() { message.SetWork(0) })
	plan := Plan{Addrs: []string{server.expect(EventReady).Addr}, Callers: 1, Conns: 1, Duration: time.Second} // so that calls end within it on a busy machine, too
	res := measure(startPeer(t, sys, plan.Args()...))
	if res.Calls == 0 || res.Latency.Min < work {
		t.Errorf("%d calls, the quickest in %v, want none under %v", res.Calls, res.Latency.Min, work)
	}
}

func TestConnectionsTakeTurnsAtTheServers(t *testing.T) {
	dialed := map[string]int{}
	sys := System{Dial: func(addr string) (Caller, error) {
		dialed[addr]++
		return fake{}, nil
	}}
	plan := Plan{Addrs: []string{"x:1", "y:1"}, Callers: 4, Conns: 0, Duration: time.Millisecond}
	measure(startPeer(t, sys, plan.Args()...))
	if dialed["x:1"] != 2 || dialed["y:1"] != 2 {
		t.Errorf("dialed %v, want two connections to each server", dialed)
	}
}

// stalling takes a second for its hundredth call, and no time for the others.
type stalling struct{ calls *atomic.Int64 }

func (s stalling) Call(req, reply *message.BenchmarkMessage) error {
	if s.calls.Add(1) == 100 {
		time.Sleep(time.Second)
	}
	message.Share(reply, req)
	message.Answer(reply)
	return nil
}

func (stalling) Close() error { return nil }

// In an open loop a stall of a second delays every call that should have begun in that
// time; in a closed loop only one.
func TestAStallShowsInTheOpenLoop(t *testing.T) {
	const rate = 100
	delayed := func(plan Plan) (slow, all int64) {
		synctest.Test(t, func(t *testing.T) {
			var calls atomic.Int64
			c, err := startClient(System{Dial: func(string) (Caller, error) { return pausing{stalling{&calls}, plan.Rate}, nil }}, plan)
			if err != nil {
				t.Fatal(err)
			}
			c.rec.on.Store(true)
			time.Sleep(plan.Duration)
			c.stop()
			for _, b := range c.rec.hist.Distribution() {
				if all += b.Count; b.From >= int64(100*time.Millisecond) {
					slow += b.Count
				}
			}
		})
		return slow, all
	}
	plan := Plan{Addrs: []string{"x:1"}, Callers: 2, Conns: 1, Duration: 5 * time.Second}
	if slow, all := delayed(plan); slow != 1 || all < 100 {
		t.Errorf("closed loop: %d of %d calls were slow", slow, all)
	}
	// One of the two callers continues; the other's 50 calls of that second are late, all but
	// the last ten by more than 100 ms.
	plan.Rate = rate
	if slow, all := delayed(plan); slow < 44 || slow > 46 || all < 5*rate-2 || all > 5*rate+2 {
		t.Errorf("open loop: %d of %d calls were slow", slow, all)
	}
}

// pausing waits after each call of a closed loop, which would not end in virtual time
// otherwise.
type pausing struct {
	Caller
	rate int
}

func (p pausing) Call(req, reply *message.BenchmarkMessage) error {
	if p.rate == 0 {
		time.Sleep(time.Millisecond)
	}
	return p.Caller.Call(req, reply)
}

func TestPlanCrossesTheCommandLine(t *testing.T) {
	want := Plan{[]string{"127.0.0.1:80", "[::1]:81"}, 7, 3, 2 * time.Second, 1500 * time.Millisecond, 1000000, 50000}
	got, err := parsePlan(want.Args()[1:])
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
}

func TestRecorderCountsOnlyWhileOn(t *testing.T) {
	rec := newRecorder()
	kept := samples{to: rec}
	kept.add(time.Hour)
	rec.fail(errors.New("too early"))
	rec.on.Store(true)
	for i := range 1000 {
		kept.add(time.Duration(i+1) * time.Microsecond)
	}
	rec.on.Store(false)
	kept.add(time.Hour)
	kept.flush()
	if n := rec.counted(); n != 1000 {
		t.Errorf("%d calls counted, want 1000", n)
	}
	l := rec.result().Latency
	for want, got := range map[time.Duration]time.Duration{
		1 * time.Microsecond:    l.Min,
		500 * time.Microsecond:  l.P50,
		900 * time.Microsecond:  l.P90,
		990 * time.Microsecond:  l.P99,
		1000 * time.Microsecond: l.Max,
	} {
		if got < want-want/500 || got > want+want/500 {
			t.Errorf("got %v for %v, more than 0.2 %% off", got, want)
		}
	}
}
