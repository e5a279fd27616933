// Package overload decides which requests a server runs now, which wait, and which it
// refuses, so that a server that is offered more than it can do works only on requests
// whose callers still wait.
//
// A [Gate] is for one process. In calm weather it only counts running handlers. It guards
// while the processors are short, and the methods whose handlers end after their deadline:
// then requests wait in one queue, and a request that can't finish in time is refused at
// once. Four parts decide:
//
//   - Slots bound the running handlers while goroutines wait for a processor (slots.go).
//   - A limit for each method follows its handlers that end too late (limit.go).
//   - The queue is fair between methods, and within a method between callers (queue.go).
//   - A forecast compares the time that a request would wait and run with the time that
//     its caller still waits (forecast.go).
//
// The package is pure: time is an argument, in nanoseconds of a monotonic clock, and so is
// what is measured of the processors.
package overload

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Gate admits requests. Its methods are safe for concurrent use.
type Gate struct {
	cfg Config

	guarding atomic.Bool  // requests of all methods pass the queue
	running  atomic.Int64 // handlers

	mu      sync.Mutex
	slots   slots
	calls   int       // that wait
	bytes   int64     // of those
	methods []*Method // with requests that wait
	all     []*Method
	clock   [classes]int64 // virtual time of the methods that were served last
	counts  Counts
}

// Config are the constants of a [Gate]. A zero field has the default that [Default] returns.
type Config struct {
	Calls        int           // requests that may wait
	Bytes        int64         // that those may take
	Processors   int           // the least number of slots is this
	Busy         float64       // goroutines that wait for a processor, for each processor: with more the slots become fewer
	Idle         float64       // with fewer than this they become more
	Engage       float64       // share of the usual timeout that a goroutine must wait for a processor before slots apply
	Slack        float64       // share of its remaining time that a request may wait in the queue
	FirstLimit   int           // of the running handlers of a method
	Cut          float64       // what is left of a method's limit after handlers were late
	LeastLimit   int           // of a method
	UsualTimeout time.Duration // of requests without a deadline
}

// Default returns the default constants.
func Default() Config {
	return Config{
		Calls: 8192, Bytes: 32 << 20, Processors: 1, Busy: 4, Idle: 1, Engage: 0.1, Slack: 0.5,
		FirstLimit: 128, Cut: 0.7, LeastLimit: 2, UsualTimeout: 10 * time.Second,
	}
}

// Counts are what a [Gate] has done so far.
type Counts struct {
	Late    uint64 // requests refused because they could not finish in time when they came
	Expired uint64 // requests refused because they could not after they had waited
	Full    uint64 // requests refused because the queue was full
	Queued  uint64 // requests that have waited
}

// New returns a Gate.
func New(cfg Config) *Gate {
	g := &Gate{cfg: cfg}
	g.slots.least = max(1, cfg.Processors)
	return g
}

// Method returns what the gate knows of a method that begins to be served now.
func (g *Gate) Method(now int64) *Method {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := &Method{period: now}
	m.limit.Store(int64(g.cfg.FirstLimit))
	g.all = append(g.all, m)
	return m
}

// Class is how critical a request is. Within the queue a higher class is served first.
type Class uint8

// The classes, as in chapter 21 of Site Reliability Engineering (Beyer and others, 2016).
const (
	Sheddable Class = iota
	Normal
	Critical
	CriticalPlus

	classes = 4
)

// Request is one request that comes to a [Gate].
type Request struct {
	Method   *Method
	Caller   uint64 // a hash of the caller's identity, or of its network
	Class    Class
	Bytes    int64
	Arrived  int64 // when it came to this host, as far as is known
	Deadline int64 // 0 for none
	Owner    any   // who asked; the gate does not look at it
}

// Verdict is what a [Gate] says of a request.
type Verdict uint8

// The verdicts.
const (
	Run    Verdict = iota // begin now
	Wait                  // the request is in the queue; [Next] has it later
	Refuse                // it has not been executed
)

// Next are requests that have left the queue: to begin now, or refused.
type Next struct {
	Run, Refuse []*Request
}

// Ask admits a request. For [Refuse] it returns how long the caller should wait before it
// tries again. A request that may run must be ended with [Gate.Done].
func (g *Gate) Ask(r *Request, now int64) (v Verdict, retryAfter time.Duration) {
	m := r.Method
	if !g.guarding.Load() && m.admits() {
		g.begin(m)
		return Run, 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if m.waiting() == 0 && g.hasSlot() && m.admits() {
		g.begin(m)
		m.started(now)
		return Run, 0
	}
	ahead := g.ahead(r)
	switch {
	case !r.fits(now+ahead, g.cfg.Slack):
		g.counts.Late++
		return Refuse, pause(ahead)
	case g.calls >= g.cfg.Calls || g.bytes+r.Bytes > g.cfg.Bytes:
		g.counts.Full++
		return Refuse, pause(ahead)
	}
	g.enqueue(r)
	return Wait, 0
}

// Done notes that a handler has ended: when it had begun, and the deadline of its call.
// failed handlers say nothing about the time that others will take.
func (g *Gate) Done(m *Method, began, now, deadline int64, failed bool) Next {
	g.running.Add(-1)
	running := m.running.Add(-1)
	late := deadline != 0 && now >= deadline
	if !late {
		m.done(now-began, failed)
		if !g.guarding.Load() && 2*running < m.limit.Load() {
			return Next{}
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if late {
		m.cut(&g.cfg, began, now, deadline)
	} else {
		m.grow(began, now, deadline)
	}
	return g.next(now)
}

// Leave takes a request out of the queue whose caller has gone. It returns false if the
// request is not there any more.
func (g *Gate) Leave(r *Request) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !r.Method.queues[r.Class].remove(r) {
		return false
	}
	g.forget(r)
	return true
}

// Sample tells the gate what was measured of the processors since the last sample, and
// returns the requests that may begin because of it.
func (g *Gate) Sample(s Load, now int64) Next {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range g.all {
		m.roll(&g.cfg, now)
	}
	g.slots.adjust(&g.cfg, s, g.running.Load(), g.calls > 0)
	g.guarding.Store(g.slots.limit > 0 || g.calls > 0)
	return g.next(now)
}

// Guarding reports whether requests pass the queue.
func (g *Gate) Guarding() bool { return g.guarding.Load() }

// State is what a [Gate] shows of itself.
type State struct {
	Slots   int64 // 0 while there is no limit
	Running int64
	Waiting int
	Counts  Counts
}

// State returns the present state.
func (g *Gate) State() State {
	g.mu.Lock()
	defer g.mu.Unlock()
	return State{Slots: g.slots.limit, Running: g.running.Load(), Waiting: g.calls, Counts: g.counts}
}

func (g *Gate) begin(m *Method) {
	g.running.Add(1)
	if n := m.running.Add(1); n > m.most.Load() {
		m.most.Store(n) // a lost race loses one of many
	}
}

func (g *Gate) hasSlot() bool { return g.slots.limit == 0 || g.running.Load() < g.slots.limit }

func (g *Gate) enqueue(r *Request) {
	m := r.Method
	if m.waiting() == 0 {
		g.methods = append(g.methods, m)
	}
	q := &m.queues[r.Class]
	if q.calls == 0 {
		m.served[r.Class] = max(m.served[r.Class], g.clock[r.Class])
	}
	q.add(r)
	g.calls++
	g.bytes += r.Bytes
	g.counts.Queued++
}

// forget counts a request that has left the queue.
func (g *Gate) forget(r *Request) {
	g.calls--
	g.bytes -= r.Bytes
	if m := r.Method; m.waiting() == 0 {
		i := slices.Index(g.methods, m)
		g.methods = slices.Delete(g.methods, i, i+1)
	}
}

// next takes requests out of the queue: those that may run, and those that can't finish in
// time any more.
func (g *Gate) next(now int64) (n Next) {
	for g.calls > 0 && g.hasSlot() {
		m, class := g.choose()
		if m == nil {
			break
		}
		r := m.queues[class].take()
		g.forget(r)
		if !r.fits(now, 1) {
			g.counts.Expired++
			n.Refuse = append(n.Refuse, r)
			continue
		}
		g.clock[class] = m.served[class]
		m.served[class] += max(1, m.took.Load())
		m.started(now)
		g.begin(m)
		n.Run = append(n.Run, r)
	}
	return n
}

// choose returns the method that has been served least, of those with requests of the
// highest class; nil if all are at their limits.
func (g *Gate) choose() (best *Method, class Class) {
	for c := CriticalPlus + 1; c > 0; c-- {
		class = c - 1
		for _, m := range g.methods {
			if m.queues[class].calls > 0 && m.admits() && (best == nil || m.served[class] < best.served[class]) {
				best = m
			}
		}
		if best != nil {
			break
		}
	}
	return best, class
}
