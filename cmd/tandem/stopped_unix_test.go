//go:build unix

package main

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/cmd/tandem/internal/loadtest"
	"github.com/tandem-rpc/tandem/cmd/tandem/internal/services"
)

// TestStoppedServerIsFoundOut stops a server, which then keeps its connections open and sends
// nothing. The client must notice it, for a call without a response and for a stream that
// waits to receive.
func TestStoppedServerIsFoundOut(t *testing.T) {
	const bound = 4 * time.Second // half a second until it is pinged, and the silence
	s := spawn(t, "serve", "--listen", "tcp://127.0.0.1:0")
	target, _, _ := strings.Cut(strings.TrimPrefix(s.next(t), "serving "), ": ")
	c, err := client.Dial(target, client.WithConnections(client.Connections{Silence: 2 * time.Second}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	talk, err := client.Stream[services.Line, services.Line](t.Context(), c, services.Talk)
	if err != nil {
		t.Fatal(err)
	}
	defer talk.Close()

	stop(t, s)
	start := time.Now()
	streamErr := make(chan error, 1)
	go func() {
		_, err := talk.Recv()
		streamErr <- err
	}()
	err = c.Call(t.Context(), "Arith.Mul", &services.Args{A: 7, B: 8}, nil)
	if took := time.Since(start); tandem.CodeOf(err) != tandem.Unavailable || took > bound {
		t.Errorf("call: %v after %v, want Unavailable within %v", err, took, bound)
	}
	err = <-streamErr
	if took := time.Since(start); tandem.CodeOf(err) != tandem.Unavailable || took > bound {
		t.Errorf("stream: %v after %v, want Unavailable within %v", err, took, bound)
	}

	signalTo(t, s, syscall.SIGCONT)
	signalTo(t, s, syscall.SIGTERM)
	if code := s.exit(t); code != exitOK {
		t.Errorf("exit %d, %s", code, s.errs.String())
	}
}

// TestStoppedServerGetsNoCall stops one of two servers while there are no calls. The client must
// suspect it before the next call, and use it again when it continues.
func TestStoppedServerGetsNoCall(t *testing.T) {
	const (
		interval = 400 * time.Millisecond
		bound    = interval + interval/8 + 1400*time.Millisecond // as client.Connections says
		slack    = 500 * time.Millisecond                        // for a busy machine
		calls    = 2000
	)
	var addresses []string
	var servers []*spawned
	for range 2 {
		s := spawn(t, "serve", "--listen", "tcp://127.0.0.1:0")
		target, _, _ := strings.Cut(strings.TrimPrefix(s.next(t), "serving tcp://"), ": ")
		servers, addresses = append(servers, s), append(addresses, target)
	}
	c, err := client.Dial("static://"+strings.Join(addresses, ","), client.WithBalancer(balance.RoundRobin()), client.WithConnections(client.Connections{HealthCheck: interval}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	firstIs := func(what string, within time.Duration, so func(client.InstanceState) bool) {
		t.Helper()
		for start := time.Now(); ; {
			in := stateAt(c, addresses[0])
			if so(in) {
				t.Logf("%s after %v", what, time.Since(start))
				return
			}
			if time.Since(start) > within {
				t.Fatalf("not %s within %v: %+v", what, within, in)
			}
			time.Sleep(5 * time.Millisecond) // polls a condition
		}
	}
	well := func(in client.InstanceState) bool { return in.ID != "" && in.Unusable == "" && in.Suspect == "" }
	firstIs("connected", 5*time.Second, well)

	_, calm := burst(t, c, addresses[0], calls)
	stop(t, servers[0])
	firstIs("a suspect", bound+slack, func(in client.InstanceState) bool { return in.Suspect != "" })
	if served, p99 := burst(t, c, addresses[0], calls); served != 0 || p99 > 50*time.Millisecond+3*calm { // calm is long on a busy machine
		t.Errorf("%d of %d calls met the stopped server, p99 %v, %v before", served, calls, p99, calm)
	}
	signalTo(t, servers[0], syscall.SIGCONT)
	firstIs("back", 7*time.Second, well) // the longest dial and the longest backoff, in case of a reconnect
	if served, _ := burst(t, c, addresses[0], calls); served < calls/3 {
		t.Errorf("%d of %d calls went to the server that goes on", served, calls)
	}
}

// stateAt returns the client's state of the instance at an address.
func stateAt(c *client.Client, address string) (at client.InstanceState) {
	for _, a := range c.Describe("Arith.Mul").Attempts {
		for _, in := range a.Instances {
			if strings.HasSuffix(in.ID, address) {
				at = in
			}
		}
	}
	return at
}

// burst makes calls, none of which may fail. It returns how many went to the server at the
// address, and the 99th percentile of their latencies.
func burst(t *testing.T, c *client.Client, address string, calls int) (served uint64, p99 time.Duration) {
	t.Helper()
	before := stateAt(c, address).Calls
	var took []time.Duration
	for range calls {
		start := time.Now()
		if err := c.Call(t.Context(), "Arith.Mul", &services.Args{A: 7, B: 8}, nil); err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	t.Logf("p99 %v, longest %v", took[len(took)*99/100], took[len(took)-1])
	return stateAt(c, address).Calls - before, took[len(took)*99/100]
}

// stop sends SIGSTOP and returns when the process has stopped.
func stop(t *testing.T, s *spawned) {
	t.Helper()
	signalTo(t, s, syscall.SIGSTOP)
	var status syscall.WaitStatus
	for !status.Stopped() {
		_, err := syscall.Wait4(s.cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
		if err != nil && err != syscall.EINTR {
			t.Fatal(err)
		}
		if status.Exited() {
			t.Fatalf("it has ended with %d", status.ExitStatus())
		}
	}
}

// TestBenchSeesAStoppedServer stops a server for a while during a load test. Every call that was
// due in that time must count as slow, not only those that were in flight at its beginning.
func TestBenchSeesAStoppedServer(t *testing.T) {
	const stopped = 700 * time.Millisecond
	s := spawn(t, "serve", "--listen", "tcp://127.0.0.1:0")
	target, _, _ := strings.Cut(strings.TrimPrefix(s.next(t), "serving "), ": ")
	results := make(chan *loadtest.Result, 1)
	go func() {
		defer close(results)
		results <- bench(t, exitOK, "--rate", "100", "--duration", "2s", target, "Arith.Mul", `{"A":7,"B":8}`)
	}()
	time.Sleep(600 * time.Millisecond) // the load test runs by the clock
	stop(t, s)
	time.Sleep(stopped) // that is what is measured
	signalTo(t, s, syscall.SIGCONT)
	res := <-results
	if res == nil {
		t.FailNow()
	}
	var slow int64
	for _, b := range res.Histogram {
		if b.From >= 100 {
			slow += b.Calls
		}
	}
	if res.Calls.OK != 200 || slow < 50 || res.Latency.Max < float64(stopped.Milliseconds())-50 {
		t.Errorf("%+v, %d slow ones, %+v", res.Calls, slow, res.Latency)
	}
	signalTo(t, s, syscall.SIGTERM)
	if code := s.exit(t); code != exitOK {
		t.Errorf("exit %d, %s", code, s.errs.String())
	}
}
