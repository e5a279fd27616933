package server

import (
	"cmp"
	"context"
	"hash/maphash"
	"log/slog"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/dispatch"
	"github.com/tandem-rpc/tandem/internal/overload"
)

// guard is the server's overload gate, with the state of the goroutine that samples the
// processors for it.
type guard struct {
	gate  *overload.Gate
	loads sync.Map // *dispatch.Method to *overload.Method
	seed  maphash.Seed
	begin sync.Once
	read  atomic.Int64 // ns; when letRead last yielded

	// Used by watch only.
	told    bool   // the overload has been logged
	refused uint64 // number of requests refused before the overload began
}

func newGuard(cfg overload.Config) *guard {
	cfg.Processors = cmp.Or(cfg.Processors, runtime.GOMAXPROCS(0))
	return &guard{gate: overload.New(cfg), seed: maphash.MakeSeed()}
}

// loadOf returns the gate's state of a method, which all connections share.
func (g *guard) loadOf(m *dispatch.Method) *overload.Method {
	if known, ok := g.loads.Load(m); ok {
		return known.(*overload.Method) //nolint:forcetypeassert // nothing else is stored
	}
	known, loaded := g.loads.LoadOrStore(m, g.gate.Method(0))
	_ = loaded                      // a Method that lost the race has no calls
	return known.(*overload.Method) //nolint:forcetypeassert // as above
}

// letRead yields to other goroutines, most of which read requests. Go's scheduler prefers the
// goroutine that was made runnable last, which is the next handler, and meanwhile requests wait
// in the kernel, where the gate can't see them.
func (g *guard) letRead(now int64) {
	if g == nil || !g.gate.Guarding() {
		return
	}
	if last := g.read.Load(); now-last > int64(g.gate.Every()) && g.read.CompareAndSwap(last, now) {
		runtime.Gosched()
		g.gate.Paused()
	}
}

// callerOf returns a hash that identifies a caller: of the public key of a verified
// certificate, else of the caller's network.
func (s *Server) callerOf(p *tandem.Peer) uint64 {
	if isVerified(p) {
		return maphash.Bytes(s.guard.seed, p.TLS.PeerCertificates[0].RawSubjectPublicKeyInfo)
	}
	return maphash.Comparable(s.guard.seed, s.networkOf(p.Addr))
}

// classOf returns how critical a call is: the class that a rule sets, else the one that the call
// names, but at most Normal from callers that are not trusted.
func (s *Server) classOf(call *tandem.Call) overload.Class {
	if class, ok := classes[s.ruledClass(call)]; ok {
		return class
	}
	class, ok := classes[tandem.Criticality(call.Metadata.Get(tandem.CriticalityKey))]
	switch {
	case !ok:
		return overload.Normal
	case class > overload.Normal && !s.opts.trusts(call.Peer):
		return overload.Normal
	}
	return class
}

var classes = map[tandem.Criticality]overload.Class{
	tandem.Sheddable: overload.Sheddable, tandem.Normal: overload.Normal,
	tandem.Critical: overload.Critical, tandem.CriticalPlus: overload.CriticalPlus,
}

// isVerified reports whether the peer has shown a certificate that was verified.
func isVerified(p *tandem.Peer) bool { return p.TLS != nil && len(p.TLS.VerifiedChains) > 0 }

// OverloadState is the state of a server's overload control, and what it has done so far.
type OverloadState struct {
	Guarding bool             `json:"guarding"` // all requests pass the gate
	Slots    int64            `json:"slots"`    // handlers that may run; 0 while there is no limit
	Running  int64            `json:"running"`  // running handlers, without those that a reader runs itself while Guarding is false
	Waiting  int              `json:"waiting"`  // requests that wait
	Streams  int64            `json:"streams"`  // running streams
	Queued   uint64           `json:"queued"`   // requests that have waited so far
	Refused  OverloadRefusals `json:"refused"`  // requests refused so far
	Methods  []MethodLoad     `json:"methods"`  // methods that have been called, sorted by name
}

// OverloadRefusals counts requests that were refused as not executed, by reason.
type OverloadRefusals struct {
	Late    uint64 `json:"late"`    // requests that could not end in time, on arrival
	Expired uint64 `json:"expired"` // requests that could not end in time any more, after waiting
	Full    uint64 `json:"full"`    // requests that found the queue full
	Streams uint64 `json:"streams"` // requests for streams, while too many ran
}

// MethodLoad is the state of a method in overload control.
type MethodLoad struct {
	Name    string `json:"name"`
	Running int64  `json:"running"` // running handlers
	Limit   int64  `json:"limit"`   // limit of running handlers
	Waiting int    `json:"waiting"` // requests that wait
}

// Overload returns the state of the server's overload control; the zero value if it has none.
func (s *Server) Overload() (o OverloadState) {
	if s.guard == nil {
		return o
	}
	g := s.guard.gate
	now := g.State()
	o = OverloadState{
		Guarding: g.Guarding(), Slots: now.Slots, Running: now.Running, Waiting: now.Waiting, Streams: now.Streams, Queued: now.Counts.Queued,
		Refused: OverloadRefusals{now.Counts.Late, now.Counts.Expired, now.Counts.Full, now.Counts.Streams},
	}
	for m, load := range s.guard.loads.Range {
		l := MethodLoad{Name: m.(*dispatch.Method).Name}                 //nolint:forcetypeassert // nothing else is stored
		l.Running, l.Limit, l.Waiting = load.(*overload.Method).State(g) //nolint:forcetypeassert // as above
		o.Methods = append(o.Methods, l)
	}
	slices.SortFunc(o.Methods, func(a, b MethodLoad) int { return strings.Compare(a.Name, b.Name) })
	return o
}

// whileIdle is how many times longer the interval between two samples of the processors is
// while no call runs.
const whileIdle = 10

// watch starts the goroutine that samples the processors for the gate until the server ends.
func (s *Server) watch() {
	g := s.guard
	if g == nil {
		return
	}
	g.begin.Do(func() {
		s.wg.Go(func() { g.watch(s.base, s.env.Now, s.log()) })
	})
}

func (g *guard) watch(ctx context.Context, now func() int64, log *slog.Logger) {
	var p processors
	p.look()
	timer := time.NewTimer(g.gate.Every())
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		load := p.look()
		g.gate.Sample(load, now()).Tell()
		g.tell(log)
		if load.Wait > 0 || g.gate.Busy() {
			timer.Reset(g.gate.Every())
		} else {
			timer.Reset(whileIdle * g.gate.Every())
		}
	}
}

// tell logs the begin and the end of an overload.
func (g *guard) tell(log *slog.Logger) {
	s := g.gate.State()
	guarding, c := g.gate.Guarding(), s.Counts
	refused := c.Late + c.Expired + c.Full + c.Streams
	switch {
	case guarding && !g.told && refused > g.refused:
		g.told = true
		log.Warn("the server is overloaded: it refuses calls that could not end in time", "slots", s.Slots, "waiting", s.Waiting)
	case g.told && !guarding:
		g.told = false
		log.Info("the server is not overloaded any more", "refused", refused-g.refused)
	}
	if !guarding {
		g.refused = refused
	}
}

// processors measures how many goroutines wait for a processor, and how long.
type processors struct {
	samples  [2]metrics.Sample
	counts   []uint64 // numbers of waits, by length, when look was last called
	runnable float64  // goroutines per processor, smoothed
}

// look returns the load since look was last called.
func (p *processors) look() overload.Load {
	if p.samples[0].Name == "" {
		p.samples[0].Name = "/sched/latencies:seconds"
		p.samples[1].Name = "/sched/goroutines/runnable:goroutines"
	}
	metrics.Read(p.samples[:])
	const weight = 4
	now := float64(p.samples[1].Value.Uint64()) / float64(runtime.GOMAXPROCS(0))
	p.runnable += (now - p.runnable) / weight
	return overload.Load{Runnable: p.runnable, Wait: p.wait(p.samples[0].Value.Float64Histogram())}
}

// wait returns the median of the waits since look was last called.
func (p *processors) wait(h *metrics.Float64Histogram) time.Duration {
	if p.counts == nil {
		p.counts = make([]uint64, len(h.Counts))
	}
	total := uint64(0)
	for i, n := range h.Counts {
		total += n - p.counts[i]
	}
	median, sum := 0.0, uint64(0)
	for i, n := range h.Counts {
		sum += n - p.counts[i]
		if total > 0 && median == 0 && 2*sum >= total {
			median = max(0, h.Buckets[i])
		}
		p.counts[i] = n
	}
	return time.Duration(median * float64(time.Second))
}

// queued is a call of another protocol that waits in the gate's queue, or was refused there.
type queued struct {
	call *runningCall
	stop func() bool // stops watching the call's context
}

// admit asks the gate whether a call may begin. It returns false if the call waits, and so
// begins later, or is refused.
func (c *Conn) admit(r *runningCall) bool {
	g := c.server.guard
	if r.kind == tandem.Streaming {
		return c.admitStream(r)
	}
	if !r.deadline.IsZero() {
		g.gate.Saw(time.Until(r.deadline))
	}
	if g.gate.Admit(r.method.load) {
		return true
	}
	return c.enqueue(r)
}

// enqueue is admit for a call that has to wait, or to be refused.
func (c *Conn) enqueue(listed *runningCall) bool {
	g, call := c.server.guard, listed.call
	q := &queued{call: listed}
	r := &overload.Request{
		Method: listed.method.load, Caller: c.server.callerOf(call.Peer), Class: c.server.classOf(call), Bytes: foreignBytes,
		OneWay: call.Kind == tandem.OneWay, Deadline: c.server.env.Instant(call.Deadline), Owner: q,
	}
	listed.queue(r)
	q.stop = context.AfterFunc(listed.Parent(), func() {
		if g.gate.Leave(r) {
			q.end(notStarted(listed.Parent().Err()))
		}
	})
	verdict, after := g.gate.Ask(r, c.server.env.Now())
	if verdict == overload.Wait {
		return false
	}
	q.stop()
	if verdict == overload.Refuse {
		q.Refused(after)
	}
	return verdict == overload.Run
}

// admitStream is admit for a stream, which does not wait.
func (c *Conn) admitStream(r *runningCall) bool {
	if c.server.guard.gate.BeginStream() {
		return true
	}
	defer c.leaveCall(r)
	r.answerer.Answer(false, refusal(c.server.guard.gate.LongestPause(), "no more streams may run, so %s did not begin", r.call.Method))
	return false
}

// refusal is the error of a call that the gate has refused.
func refusal(after time.Duration, format string, args ...any) *tandem.Error {
	e := tandem.Errorf(tandem.ResourceExhausted, "the server is overloaded: "+format, args...)
	e.NotExecuted, e.RetryAfter = true, after
	return e
}

// foreignBytes is how many bytes a waiting request of another protocol counts as; what it
// really holds is counted by [WithMemory].
const foreignBytes = 4 << 10

// Admitted begins the call.
func (q *queued) Admitted() {
	q.stop()
	q.call.waited = q.call.queued
	q.call.conn.server.helpers.run(q.call.runApart)
}

// Refused ends the call, which has not executed.
func (q *queued) Refused(after time.Duration) {
	q.stop()
	q.end(refusal(after, "%s could not end in time", q.call.call.Method))
}

func (q *queued) end(err error) {
	c := q.call.conn
	c.server.helpers.run(func() {
		defer c.leaveCall(q.call)
		q.call.answerer.Answer(false, err)
	})
}
