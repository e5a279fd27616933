package load

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem/bench/message"
)

// Plan says what a client process does.
type Plan struct {
	Addrs    []string      `json:"addrs"`       // servers; connections take turns
	Callers  int           `json:"callers"`     // each has at most one call in flight
	Conns    int           `json:"conns"`       // connections that the callers share; 0 means one for each caller
	Warmup   time.Duration `json:"warmup_ns"`   // time before the measurement
	Duration time.Duration `json:"duration_ns"` // least duration of the measurement
	Calls    int64         `json:"calls"`       // least number of calls of the measurement

	// Rate is how many calls all callers together begin each second, whether earlier ones have
	// ended or not: an open loop. Callers take turns. The latency of a call whose caller is
	// still busy counts from when it should have begun. 0 means a closed loop: a call begins
	// when the caller's last one has ended.
	Rate int `json:"rate"`
}

// connections returns how many connections the client opens.
func (p Plan) connections() int {
	if p.Conns == 0 {
		return p.Callers
	}
	return p.Conns
}

// Result is what a client measured.
type Result struct {
	Calls      int64   `json:"calls"` // calls with a correct response
	Failures   int64   `json:"failures"`
	FirstError string  `json:"first_error,omitempty"`
	Latency    Latency `json:"latency"`
	Usage      Usage   `json:"usage"` // the process's usage in the measured interval
}

// Latency is the distribution of the duration of Call; in an open loop, from when Call
// should have been called.
type Latency struct {
	Mean time.Duration `json:"mean_ns"`
	Min  time.Duration `json:"min_ns"`
	P50  time.Duration `json:"p50_ns"`
	P90  time.Duration `json:"p90_ns"`
	P99  time.Duration `json:"p99_ns"`
	P999 time.Duration `json:"p999_ns"`

	P9999 time.Duration `json:"p9999_ns"`

	Max time.Duration `json:"max_ns"`
}

// errUnsupported is the error of a plan that the system does not support.
var errUnsupported = errors.New("a connection carries one call at a time; nothing can be shared")

// client is the load generator, with many callers.
type client struct {
	plan    Plan
	conns   []Caller
	rec     *recorder
	epoch   time.Time
	stopped atomic.Bool
	workers sync.WaitGroup
}

// startClient connects and starts the callers.
func startClient(sys System, plan Plan) (*client, error) {
	if plan.Conns > 0 && sys.Exclusive {
		return nil, errUnsupported
	}
	c := &client{plan: plan, rec: newRecorder(), epoch: time.Now()}
	n := plan.connections()
	for i := range n {
		addr := plan.Addrs[i%len(plan.Addrs)]
		conn, err := sys.Dial(addr)
		if err != nil {
			c.stop()
			return nil, fmt.Errorf("load: connection %d of %d to %s: %w", i+1, n, addr, err)
		}
		c.conns = append(c.conns, conn)
	}
	for i := range plan.Callers {
		c.workers.Go(func() { c.work(i, c.conns[i%len(c.conns)]) })
	}
	return c, nil
}

// work is the loop of one caller. In a closed loop a call begins when the last one ends, so
// that reading the clock once for each call is enough.
func (c *client) work(caller int, conn Caller) {
	req, reply := message.New(), new(message.BenchmarkMessage)
	kept := samples{to: c.rec}
	defer kept.flush()
	began := time.Since(c.epoch)
	next := timetable(c.plan, caller, began)
	for !c.stopped.Load() {
		if c.plan.Rate > 0 {
			if began = next(); !c.sleepUntil(began) {
				return
			}
		}
		err := callOnce(conn, req, reply)
		ended := time.Since(c.epoch)
		if err != nil {
			c.rec.fail(err)
			time.Sleep(time.Millisecond) // calls on a broken connection fail at once
			ended = time.Since(c.epoch)
		} else {
			kept.add(ended - began)
		}
		began = ended
	}
}

// callOnce makes a call and checks its response.
func callOnce(conn Caller, req, reply *message.BenchmarkMessage) error {
	reply.Reset()
	if err := conn.Call(req, reply); err != nil {
		return err
	}
	return message.Check(reply)
}

// timetable returns a function that returns when the caller's next call is to begin. The
// callers take turns, so that together they begin calls at even intervals.
func timetable(p Plan, caller int, start time.Duration) (next func() time.Duration) {
	calls := 0
	return func() time.Duration {
		n := calls*p.Callers + caller
		calls++
		return start + time.Duration(float64(n)*float64(time.Second)/float64(p.Rate))
	}
}

// sleepUntil returns at the instant, or at once if that has passed; false if the client is
// stopped in the meantime.
func (c *client) sleepUntil(instant time.Duration) bool {
	const look = 50 * time.Millisecond
	for !c.stopped.Load() {
		left := instant - time.Since(c.epoch)
		if left <= 0 {
			return true
		}
		time.Sleep(min(left, look))
	}
	return false
}

// measure records until the plan's duration and number of calls are reached, and returns
// the process's usage in that time.
func (c *client) measure() (Usage, error) {
	before, err := readUsage(c.epoch)
	if err != nil {
		return Usage{}, err
	}
	c.rec.on.Store(true)
	time.Sleep(c.plan.Duration)
	for c.rec.counted() < c.plan.Calls {
		time.Sleep(time.Millisecond)
	}
	c.rec.on.Store(false)
	after, err := readUsage(c.epoch)
	return after.Sub(before), err
}

// stop ends the callers and closes the connections, which have no calls in flight then.
func (c *client) stop() {
	c.stopped.Store(true)
	c.workers.Wait()
	for _, conn := range c.conns {
		_ = conn.Close()
	}
}
