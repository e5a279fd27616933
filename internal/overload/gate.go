// Package overload decides which requests a server runs now, which wait, and which it
// refuses, so that a server that is offered more than it can do works only on requests
// whose callers still wait.
//
// A [Gate] is for one process. Without overload it only counts running handlers. It guards all
// methods while goroutines wait for a processor, and those whose handlers take too long for their
// deadlines: then requests wait in one queue, and a request that can't finish in time is refused at
// once. Four parts decide:
//
//   - Slots bound the running handlers while goroutines wait for a processor (slots.go).
//   - A limit for each method follows the share of its handlers that are slow (limit.go).
//   - The queue is fair between methods, and within a method between callers (queue.go).
//   - A forecast compares the time that a request would wait and run with the time that
//     its caller still waits (forecast.go).
//
// The package is pure: time is an argument, in nanoseconds of a monotonic clock, and so are the
// measurements of the processors.
package overload

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Gate admits requests. Its methods are safe for concurrent use.
type Gate struct {
	cfg Config

	guarding atomic.Bool  // requests of all methods pass the queue
	running  atomic.Int64 // running handlers
	timeout  atomic.Int64 // ns, moving average of the timeouts of calls
	behind   atomic.Int64 // ns, the largest age given to Behind since the last sample
	waiting  atomic.Int64 // copy of the field calls, read without mu

	streams streams

	mu      sync.Mutex
	slots   slots
	calls   int       // requests that wait
	oneWay  int       // one-way requests among those
	bytes   int64     // bytes of the requests that wait
	methods []*Method // methods with requests that wait
	all     []*Method
	clock   [classes]int64 // virtual time of the method served last, by class
	counts  Counts
	sampled int64 // ns; when the last sample came; 0 before the first
	woke    int64 // ns; when the process last continued after a stop
}

// Config are the constants of a [Gate]; zero fields have their defaults. They are those of package
// server's OverloadConfig, which documents them.
type Config struct {
	// Queue.
	Calls  int
	OneWay int
	Bytes  int64
	Slack  float64
	Margin float64

	// Averages.
	TimeoutGain float64
	GapGain     float64
	LongestGap  float64

	// Slots.
	Processors int
	Busy       float64
	Idle       float64
	Engage     float64
	Fewer      float64
	More       float64
	CalmAfter  int

	// Streams.
	Streams int

	// Limits by latency.
	Gradient float64
	LongGain float64
	Smooth   float64
	Steepest float64
	TooLong  float64
	Falls    float64

	// Limits of methods.
	TimeShare       float64
	Slower          float64
	Judged          int
	Share           float64
	JudgedLate      int64
	JudgedTurns     int64
	MostLate        float64
	MostSlow        float64
	FirstLimit      int64
	LiftAfter       int
	LeastLimit      int
	Cut             float64
	DeepCut         float64
	Growth          int64
	Spare           float64
	Fruitless       int
	Immunity        time.Duration
	LongestImmunity time.Duration
	Period          time.Duration
	RateFades       float64
	UsualGain       float64
	ShorterGain     float64

	ShortestPause, LongestPause time.Duration

	Missed       int64
	Every        time.Duration
	UsualTimeout time.Duration
}

// Default returns the default constants.
func Default() Config {
	return Config{
		Calls: 8192, OneWay: 2048, Bytes: 32 << 20, Slack: 0.5, Margin: 1.25, TimeoutGain: 1. / 16, GapGain: 1. / 16, LongestGap: 4,
		Processors: 1, Busy: 4, Idle: 1, Engage: 0.1, Fewer: 0.7, More: 1.15, CalmAfter: 100, Streams: 1024,
		FirstLimit: manyHandlers, LiftAfter: 40, LeastLimit: 2, Cut: 0.7, Growth: 32, TimeShare: 0.5, Slower: 2, Judged: 32, Share: 0.1, Spare: 1, DeepCut: 0.25,
		Fruitless: 3, Immunity: 10 * time.Minute,
		Period: 250 * time.Millisecond, RateFades: 0.98, UsualGain: 0.0005, ShorterGain: 0.2,
		LongGain: 0.005, Smooth: 0.2, LongestImmunity: time.Hour, ShortestPause: 10 * time.Millisecond, LongestPause: time.Second,
		Steepest: 0.5, TooLong: 2, Falls: 0.95, JudgedLate: 4, JudgedTurns: 2, MostLate: 0.5, MostSlow: 0.5,
		Missed: 100, Every: 10 * time.Millisecond, UsualTimeout: 10 * time.Second,
	}
}

// fill gives zero fields their defaults.
func (c *Config) fill() {
	d := Default()
	c.Calls, c.Bytes, c.Slack = cmp.Or(c.Calls, d.Calls), cmp.Or(c.Bytes, d.Bytes), cmp.Or(c.Slack, d.Slack)
	c.Streams = cmp.Or(c.Streams, d.Streams)
	c.OneWay, c.Margin = cmp.Or(c.OneWay, d.OneWay), cmp.Or(c.Margin, d.Margin)
	c.Processors, c.Busy, c.Idle = cmp.Or(c.Processors, d.Processors), cmp.Or(c.Busy, d.Busy), cmp.Or(c.Idle, d.Idle)
	c.Engage, c.Fewer, c.More = cmp.Or(c.Engage, d.Engage), cmp.Or(c.Fewer, d.Fewer), cmp.Or(c.More, d.More)
	c.CalmAfter, c.FirstLimit = cmp.Or(c.CalmAfter, d.CalmAfter), cmp.Or(c.FirstLimit, d.FirstLimit)
	c.LeastLimit, c.Cut, c.Growth = cmp.Or(c.LeastLimit, d.LeastLimit), cmp.Or(c.Cut, d.Cut), cmp.Or(c.Growth, d.Growth)
	c.TimeShare, c.Spare, c.LiftAfter = cmp.Or(c.TimeShare, d.TimeShare), cmp.Or(c.Spare, d.Spare), cmp.Or(c.LiftAfter, d.LiftAfter)
	c.Fruitless, c.Immunity = cmp.Or(c.Fruitless, d.Fruitless), cmp.Or(c.Immunity, d.Immunity)
	c.Period, c.RateFades = cmp.Or(c.Period, d.Period), cmp.Or(c.RateFades, d.RateFades)
	c.LongGain, c.Smooth = cmp.Or(c.LongGain, d.LongGain), cmp.Or(c.Smooth, d.Smooth)
	c.LongestImmunity, c.Every = cmp.Or(c.LongestImmunity, max(d.LongestImmunity, c.Immunity)), cmp.Or(c.Every, d.Every)
	c.ShortestPause = cmp.Or(c.ShortestPause, d.ShortestPause)
	c.LongestPause = cmp.Or(c.LongestPause, max(d.LongestPause, c.ShortestPause))
	c.Slower, c.Judged, c.Share = cmp.Or(c.Slower, d.Slower), cmp.Or(c.Judged, d.Judged), cmp.Or(c.Share, d.Share)
	c.DeepCut, c.ShorterGain = cmp.Or(c.DeepCut, d.DeepCut), cmp.Or(c.ShorterGain, d.ShorterGain)
	c.TimeoutGain, c.GapGain, c.LongestGap = cmp.Or(c.TimeoutGain, d.TimeoutGain), cmp.Or(c.GapGain, d.GapGain), cmp.Or(c.LongestGap, d.LongestGap)
	c.Steepest, c.TooLong, c.Falls = cmp.Or(c.Steepest, d.Steepest), cmp.Or(c.TooLong, d.TooLong), cmp.Or(c.Falls, d.Falls)
	c.JudgedLate, c.JudgedTurns = cmp.Or(c.JudgedLate, d.JudgedLate), cmp.Or(c.JudgedTurns, d.JudgedTurns)
	c.MostLate, c.MostSlow, c.Missed = cmp.Or(c.MostLate, d.MostLate), cmp.Or(c.MostSlow, d.MostSlow), cmp.Or(c.Missed, d.Missed)
	c.UsualGain, c.UsualTimeout = cmp.Or(c.UsualGain, d.UsualGain), cmp.Or(c.UsualTimeout, d.UsualTimeout)
}

// Check returns an error that names the fields whose values can't work. Zero fields are valid.
func (c *Config) Check() error {
	var errs []error
	with := *c
	with.fill()
	for field, value := range reflect.ValueOf(with).Fields() {
		var most float64
		switch field.Name {
		case "Busy", "Engage", "FirstLimit", "Every":
			continue
		case "Share", "TimeShare", "Cut", "DeepCut", "RateFades", "UsualGain", "ShorterGain", "LongGain", "Smooth", "Fewer",
			"TimeoutGain", "GapGain", "Steepest", "Falls", "MostLate", "MostSlow":
			most = 1
		case "Missed", "JudgedLate", "JudgedTurns", "LongestGap": // they are multiplied
			most = 1e6
		default:
			most = math.MaxInt64 / 1000
		}
		v := value.Convert(reflect.TypeFor[float64]()).Float()
		if !(v >= 0 && v <= most) { // nor NaN
			errs = append(errs, fmt.Errorf("%s: %v, want 0 to %v", field.Name, value, most))
		}
	}
	if with.FirstLimit < 1 || with.FirstLimit > manyHandlers {
		errs = append(errs, fmt.Errorf("FirstLimit: %d, want 1 to %d", with.FirstLimit, manyHandlers))
	}
	if with.Every < time.Millisecond || with.Every > time.Minute {
		errs = append(errs, fmt.Errorf("Every: %v, want 1 ms to 1 min", with.Every))
	}
	return errors.Join(errs...)
}

// manyHandlers is more handlers than ever run: such a limit is none.
const manyHandlers = 1 << 30

// Counts counts what a [Gate] has done so far.
type Counts struct {
	Late    uint64 // requests refused because they could not finish in time when they came
	Expired uint64 // requests refused because they could not finish in time any more after they had waited
	Full    uint64 // requests refused because the queue was full
	Streams uint64 // streams refused because too many ran
	Queued  uint64 // requests that have waited
}

// New returns a Gate.
func New(cfg Config) *Gate {
	cfg.fill()
	g := &Gate{cfg: cfg}
	g.slots.least = max(1, cfg.Processors)
	return g
}

// Method adds a method, which begins to be served now, and returns its state.
func (g *Gate) Method(now int64) *Method {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := &Method{period: now}
	m.limit.Store(g.cfg.FirstLimit)
	g.all = append(g.all, m)
	return m
}

// Every returns the time between two samples of the processors.
func (g *Gate) Every() time.Duration { return g.cfg.Every }

// LongestPause returns the longest RetryAfter of a refused request.
func (g *Gate) LongestPause() time.Duration { return g.cfg.LongestPause }

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
	OneWay   bool
	Deadline int64 // ns; 0 for none
	Owner    any   // for the caller's use: must be an [Owner] if [Next.Tell] is used

	asked  int64 // ns; when it began to wait in the queue
	queued bool  // it is in the queue; guarded by the mutex of the gate
}

// Owner is notified when a request that waited leaves the queue. Its methods must not block.
type Owner interface {
	Admitted()                        // it begins: [Gate.Done] must follow
	Refused(retryAfter time.Duration) // it has not been executed
}

// Verdict is the decision of a [Gate] on a request.
type Verdict uint8

// The verdicts.
const (
	Run    Verdict = iota // begin now
	Wait                  // the request is in the queue; a later [Next] has it
	Refuse                // it has not been executed
)

// Next holds requests that have left the queue: to begin now, or refused.
type Next struct {
	Run, Refuse []*Request

	pause time.Duration // RetryAfter of the refused requests
}

// Tell notifies the owners of the requests.
func (n Next) Tell() {
	for _, r := range n.Run {
		r.Owner.(Owner).Admitted() //nolint:forcetypeassert // as Tell demands
	}
	for _, r := range n.Refuse {
		r.Owner.(Owner).Refused(n.pause) //nolint:forcetypeassert // as above
	}
}

// Admit is the quick form of Ask: it admits a request while the gate does not guard and the
// method is below its limit. It returns false if Ask has to decide.
func (g *Gate) Admit(m *Method) bool {
	if g.guarding.Load() || !m.admits() {
		return false
	}
	g.begin(m)
	return true
}

// Ask decides on a request. For [Refuse] it returns how long the caller should wait before it
// tries again. A request that may run must be ended with [Gate.Done].
func (g *Gate) Ask(r *Request, now int64) (v Verdict, retryAfter time.Duration) {
	m := r.Method
	if g.Admit(m) {
		return Run, 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if m.waiting() == 0 && g.hasSlot() && m.admits() {
		g.begin(m)
		m.started(&g.cfg, now)
		return Run, 0
	}
	ahead := g.ahead(r)
	switch {
	case !r.fits(ahead, now, &g.cfg):
		g.counts.Late++
		return Refuse, g.cfg.pause(ahead)
	case g.calls >= g.cfg.Calls || r.OneWay && g.oneWay >= g.cfg.OneWay || g.bytes+r.Bytes > g.cfg.Bytes:
		g.counts.Full++
		return Refuse, g.cfg.pause(ahead)
	}
	r.asked = now
	g.enqueue(r)
	return Wait, 0
}

// Handled describes a running handler for [Gate.Done]. [Method.Begin] makes one.
type Handled struct {
	Failed bool // the handler failed, so its time says nothing about that of others
	Parked bool // its slot was given up: see Slot

	method   *Method
	came     int64 // ns; when the request came to the gate
	began    int64 // ns; when the handler began, without the time of Waited
	deadline int64 // ns; 0 for none
}

// Begin records that a handler begins. waited is its request if that waited in the queue, else
// nil. deadline is 0 for none.
func (m *Method) Begin(waited *Request, now, deadline int64) Handled {
	h := Handled{method: m, came: now, began: now, deadline: deadline}
	if waited != nil && waited.asked != 0 {
		h.came = waited.asked
	}
	return h
}

// Waited records that the handler has waited d ns for something that the method does not cause,
// such as memory or the rest of the message. That is no part of the handler's time.
func (h *Handled) Waited(d int64) { h.began += d }

// Done records that a handler has ended, and returns the requests that leave the queue.
func (g *Gate) Done(h *Handled, now int64) Next {
	m := h.method
	if !h.Parked {
		g.running.Add(-1)
	}
	running := m.running.Add(-1)
	late, slow := h.deadline != 0 && now >= h.deadline, m.isSlow(&g.cfg, h, now)
	if late {
		m.late.Add(1)
		m.learn(max(m.took.Load(), now-h.began)) // it would have taken longer
	} else {
		m.done(h, now)
	}
	if !slow && !g.guarding.Load() && 2*running < m.limit.Load() {
		return Next{}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case slow:
		m.slowed(&g.cfg, h, g.wokeAt(now), now)
	case !late && h.deadline != 0:
		m.grow(&g.cfg)
	}
	return g.next(now)
}

// Leave removes a request whose caller has gone from the queue. It returns false if the request
// is not in the queue any more.
func (g *Gate) Leave(r *Request) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !r.Method.queues[r.Class].remove(r) {
		return false
	}
	g.forget(r)
	return true
}

// Holds reports whether a request is in the queue. It is for listings, and takes the mutex of the
// gate. A nil request is not in the queue.
func (g *Gate) Holds(r *Request) bool {
	if r == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return r.queued
}

// Saw adds the timeout of a request to the average. It is called for some requests only, as
// calls for all would cost too much.
func (g *Gate) Saw(timeout time.Duration) {
	old := g.timeout.Load()
	if old == 0 {
		old = int64(timeout)
	}
	g.timeout.Store(old + part(g.cfg.TimeoutGain, int64(timeout)-old)) // a lost race loses one of many
}

// Behind records the age of the requests in the kernel's receive buffer of one connection.
func (g *Gate) Behind(age time.Duration) {
	if int64(age) > g.behind.Load() {
		g.behind.Store(int64(age)) // a lost race loses one of many
	}
}

// Sample takes the measurements of the processors since the last sample, and returns the
// requests that may begin because of it.
func (g *Gate) Sample(s Load, now int64) Next {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wokeAt(now)
	g.sampled = now
	for _, m := range g.all {
		m.roll(&g.cfg, now)
	}
	if s.Timeout == 0 {
		s.Timeout = time.Duration(g.timeout.Load())
	}
	s.Behind = max(s.Behind, time.Duration(g.behind.Swap(0)))
	kept := g.streams.kept.Swap(false)
	g.slots.adjust(&g.cfg, s, g.running.Load(), g.calls > 0 || kept)
	g.streams.adjust(&g.cfg, s, &g.slots, kept)
	g.guarding.Store(g.slots.limit > 0 || g.calls > 0)
	return g.next(now)
}

func part(share float64, of int64) int64 { return int64(share * float64(of)) }

// wokeAt returns when the process last continued after a stop, which is assumed when
// Config.Missed samples are missing.
func (g *Gate) wokeAt(now int64) int64 {
	if g.sampled != 0 && now-g.sampled > g.cfg.Missed*int64(g.cfg.Every) {
		g.woke = now
	}
	return g.woke
}

// Waiting returns how many requests are in the queue.
func (g *Gate) Waiting() int64 { return g.waiting.Load() }

// Busy reports whether handlers that the gate counts are running.
func (g *Gate) Busy() bool { return g.running.Load()+g.streams.running.Load() > 0 }

// Guarding reports whether requests pass the queue.
func (g *Gate) Guarding() bool { return g.guarding.Load() }

// State is the present state of a [Gate].
type State struct {
	Slots   int64 // 0 while there is no limit
	Running int64
	Waiting int
	Streams int64 // running
	Counts  Counts
}

// State returns how many handlers of the method run, how many may, and how many requests wait.
func (m *Method) State(g *Gate) (running, limit int64, waiting int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return m.running.Load(), m.limit.Load(), m.waiting()
}

// State returns the present state.
func (g *Gate) State() State {
	g.mu.Lock()
	defer g.mu.Unlock()
	return State{Slots: g.slots.limit, Running: g.running.Load(), Waiting: g.calls, Streams: g.streams.running.Load(), Counts: g.counts}
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
	r.queued = true
	g.calls++
	g.waiting.Store(int64(g.calls))
	g.bytes += r.Bytes
	if r.OneWay {
		g.oneWay++
	}
	g.counts.Queued++
}

// forget updates the counts after a request has left the queue.
func (g *Gate) forget(r *Request) {
	r.queued = false
	g.calls--
	g.waiting.Store(int64(g.calls))
	g.bytes -= r.Bytes
	if r.OneWay {
		g.oneWay--
	}
	if m := r.Method; m.waiting() == 0 {
		i := slices.Index(g.methods, m)
		g.methods = slices.Delete(g.methods, i, i+1)
	}
}

// next takes requests out of the queue: those that may run, and those that can't finish in
// time any more.
func (g *Gate) next(now int64) (n Next) {
	n.pause = g.cfg.LongestPause
	for g.calls > 0 && g.hasSlot() {
		m, class := g.choose()
		if m == nil {
			break
		}
		r := m.queues[class].take()
		g.forget(r)
		if !r.isInTime(now, &g.cfg) {
			g.counts.Expired++
			n.Refuse = append(n.Refuse, r)
			continue
		}
		g.clock[class] = m.served[class]
		m.served[class] += max(1, m.took.Load())
		m.started(&g.cfg, now)
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
