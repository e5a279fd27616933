package load

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem/bench/message"
)

// What the harness tells a client that was started with the subcommand hold, or
// burst, and what these report.
const (
	OpEach  = "each"  // to hold: make one call on each connection
	OpSome  = "some"  // to hold: call on N connections, as the plan says
	OpBurst = "burst" // to burst: open a connection, and make N calls on it

	EventHeld = "held" // all connections are open, as far as the system says
)

// Hold is what a client does that holds many connections.
type Hold struct {
	Plan         // of OpSome; Addrs, Callers and Conns do not matter
	Addr  string // of the server's first listener
	Hosts int    // of the server: 127.0.0.1 and so on, with the port of Addr
	First int    // the number of the first connection, of all processes together
	Count int    // how many connections
	Pace  int    // how many are opened a second
}

// Args returns the command line of the client.
func (h Hold) Args() []string {
	return []string{
		"hold",
		"-addr=" + h.Addr,
		fmt.Sprintf("-hosts=%d", h.Hosts),
		fmt.Sprintf("-first=%d", h.First),
		fmt.Sprintf("-count=%d", h.Count),
		fmt.Sprintf("-pace=%d", h.Pace),
		fmt.Sprintf("-warmup=%v", h.Warmup),
		fmt.Sprintf("-duration=%v", h.Duration),
		fmt.Sprintf("-rate=%d", h.Rate),
	}
}

func parseHold(args []string) (Hold, error) {
	var h Hold
	flags := flag.NewFlagSet("hold", flag.ContinueOnError)
	flags.StringVar(&h.Addr, "addr", "", "address of the server's first listener")
	flags.IntVar(&h.Hosts, "hosts", 1, "on how many loopback addresses it listens")
	flags.IntVar(&h.First, "first", 0, "number of the first connection")
	flags.IntVar(&h.Count, "count", 1, "connections to hold")
	flags.IntVar(&h.Pace, "pace", 1000, "connections to open a second")
	flags.DurationVar(&h.Warmup, "warmup", time.Second, "time before the measurement")
	flags.DurationVar(&h.Duration, "duration", 5*time.Second, "measure so long")
	flags.IntVar(&h.Rate, "rate", 0, "calls that begin a second; 0 means that one begins when another has ended")
	if err := flags.Parse(args); err != nil {
		return h, err
	}
	if h.Count < 1 || h.Pace < 1 || h.Hosts < 1 || h.Hosts > maxHosts {
		return h, fmt.Errorf("load: %d connections to %d addresses, %d a second: there must be one of each, and at most %d addresses",
			h.Count, h.Hosts, h.Pace, maxHosts)
	}
	return h, nil
}

// addr is where the i-th connection goes.
func (h Hold) addr(i int) (string, error) {
	if h.Hosts == 1 {
		return h.Addr, nil
	}
	_, port, err := net.SplitHostPort(h.Addr)
	return net.JoinHostPort(loopback((h.First+i)%h.Hosts).String(), port), err
}

// runHold opens the connections and does what the harness says with them.
func runHold(sys System, args []string, ctl *control) error {
	h, err := parseHold(args)
	if err != nil {
		return err
	}
	conns, err := h.open(sys)
	defer closeAll(conns)
	if err != nil {
		return err
	}
	if err := ctl.report(Report{Event: EventHeld}); err != nil {
		return err
	}
	for {
		cmd, err := ctl.next()
		if err != nil {
			return err
		}
		result, err := h.do(cmd, conns)
		if err != nil {
			return err
		}
		if err := ctl.report(Report{Event: EventResult, Result: &result}); err != nil {
			return err
		}
	}
}

// open dials at an even pace: a burst would wait in the server's backlog.
func (h Hold) open(sys System) ([]Caller, error) {
	conns := make([]Caller, 0, h.Count)
	start := time.Now()
	for i := range h.Count {
		due := time.Duration(float64(i) / float64(h.Pace) * float64(time.Second))
		if early := due - time.Since(start); early > time.Millisecond {
			time.Sleep(early)
		}
		addr, err := h.addr(i)
		if err != nil {
			return conns, fmt.Errorf("load: %w", err)
		}
		conn, err := sys.Dial(addr)
		if err != nil {
			return conns, fmt.Errorf("load: connection %d of %d to %s: %w", i+1, h.Count, addr, err)
		}
		conns = append(conns, conn)
	}
	return conns, nil
}

func (h Hold) do(cmd Command, conns []Caller) (Result, error) {
	switch cmd.Op {
	case OpEach:
		return callEach(conns), nil
	case OpSome:
		return h.callSome(conns[:min(cmd.N, len(conns))])
	}
	return Result{}, fmt.Errorf("load: the harness said %q, expected %q or %q", cmd.Op, OpEach, OpSome)
}

// atOnce is how many calls of OpEach are outstanding at a time.
const atOnce = 64

// callEach makes one call on each connection.
func callEach(conns []Caller) Result {
	rec := newRecorder()
	rec.on.Store(true)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range atOnce {
		workers.Go(func() {
			req, reply := message.New(), new(message.BenchmarkMessage)
			kept := samples{to: rec}
			defer kept.flush()
			for i := next.Add(1) - 1; i < int64(len(conns)); i = next.Add(1) - 1 {
				start := time.Now()
				if err := callOnce(conns[i], req, reply); err != nil {
					rec.fail(err)
				} else {
					kept.add(time.Since(start))
				}
			}
		})
	}
	workers.Wait()
	return rec.result()
}

// callSome has one caller on each of the connections, and leaves them open.
func (h Hold) callSome(conns []Caller) (Result, error) {
	if len(conns) == 0 {
		return Result{}, errors.New("load: no connections to call on")
	}
	h.Callers = len(conns)
	c := &client{plan: h.Plan, conns: conns, rec: newRecorder(), epoch: time.Now()}
	c.start()
	time.Sleep(h.Warmup)
	usage, err := c.measure()
	c.join()
	result := c.rec.result()
	result.Usage = usage
	return result, err
}

// runBurst times calls one after the other, each burst on a connection of its
// own, which a first call has opened.
func runBurst(sys System, args []string, ctl *control) error {
	flags := flag.NewFlagSet("burst", flag.ContinueOnError)
	addr := flags.String("addr", "", "address of the server")
	if err := flags.Parse(args); err != nil {
		return err
	}
	for {
		cmd, err := ctl.next()
		if err != nil {
			return err
		}
		if cmd.Op != OpBurst || cmd.N < 1 {
			return fmt.Errorf("load: the harness said %q with %d, expected %q and at least 1", cmd.Op, cmd.N, OpBurst)
		}
		result, err := burst(sys, *addr, cmd.N)
		if err != nil {
			return err
		}
		if err := ctl.report(Report{Event: EventResult, Result: &result}); err != nil {
			return err
		}
	}
}

// burst makes n calls. Any that fails ends it.
func burst(sys System, addr string, n int) (r Result, err error) {
	conn, err := sys.Dial(addr)
	if err != nil {
		return r, fmt.Errorf("load: connection to %s: %w", addr, err)
	}
	defer closeAll([]Caller{conn})
	req, reply := message.New(), new(message.BenchmarkMessage)
	if err := callOnce(conn, req, reply); err != nil {
		return r, fmt.Errorf("load: the first call: %w", err)
	}
	epoch := time.Now()
	before, err := readUsage(epoch)
	if err != nil {
		return r, err
	}
	start := time.Now()
	for i := range n {
		if err := callOnce(conn, req, reply); err != nil {
			return r, fmt.Errorf("load: call %d of %d: %w", i+1, n, err)
		}
	}
	wall := time.Since(start)
	after, err := readUsage(epoch)
	r = Result{Calls: int64(n), Usage: after.Sub(before)}
	r.Usage.Wall = wall // without the readings before and after it
	return r, err
}

// closeAll closes connections on which nothing is outstanding that could be lost.
func closeAll[C io.Closer](conns []C) {
	for _, conn := range conns {
		_ = conn.Close()
	}
}
