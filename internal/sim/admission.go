package sim

import (
	"math"
	"time"

	"github.com/tandem-rpc/tandem/internal/overload"
)

// open admits everything.
type open struct{}

func (open) ask(s *site, j *job) { s.start(j) }
func (open) done(*site, *job)    {}
func (open) tick(*site)          {}

// guarded admits the requests that a [overload.Gate] admits.
type guarded struct {
	gate      *overload.Gate
	timeouts  time.Duration // moving average of the calls' timeouts
	runnable  float64       // for each processor, smoothed
	oneCaller bool          // planted faults
	oneMethod bool
	method    *overload.Method // of all, if oneMethod
}

func (g *guarded) ask(s *site, j *job) {
	now := int64(s.world.now)
	m := g.methodOf(j.method, now)
	left := j.deadline - j.begun // as the request says it, when it was sent
	g.timeouts += (left - g.timeouts) / 16
	caller := uint64(j.caller.number) //nolint:gosec // small
	if g.oneCaller {
		caller = 0
	}
	r := &overload.Request{
		Method: m, Caller: caller, Class: overload.Normal, Bytes: 600,
		Deadline: int64(j.arrived + left), Owner: j,
	}
	j.request = r
	switch v, after := g.gate.Ask(r, now); v {
	case overload.Run:
		s.start(j)
	case overload.Refuse:
		s.refuse(j, after)
	case overload.Wait:
	}
}

func (g *guarded) methodOf(w *work, now int64) *overload.Method {
	if w.state == nil {
		if g.method == nil || !g.oneMethod {
			g.method = g.gate.Method(now)
		}
		w.state = g.method
	}
	return w.state
}

func (g *guarded) done(s *site, j *job) {
	now := int64(s.world.now)
	g.begin(s, g.gate.Done(&j.handled, now))
}

// begin starts or refuses the jobs that have left the queue.
func (g *guarded) begin(s *site, n overload.Next) {
	for _, r := range n.Refuse {
		s.refuse(r.Owner.(*job), 100*time.Millisecond) //nolint:forcetypeassert // jobs are the only owners
	}
	for _, r := range n.Run {
		s.start(r.Owner.(*job)) //nolint:forcetypeassert // as above
	}
}

func (g *guarded) tick(s *site) {
	var wait time.Duration
	for _, w := range s.waits {
		wait += w
	}
	if n := len(s.waits); n > 0 {
		wait /= time.Duration(n)
	}
	if n := len(s.queue); n > 0 {
		wait = max(wait, s.world.now-s.queue[0].ready)
	}
	g.runnable += (float64(len(s.queue))/float64(s.procs) - g.runnable) / 4
	g.begin(s, g.gate.Sample(overload.Load{Runnable: g.runnable, Wait: wait, Timeout: g.timeouts}, int64(s.world.now)))
}

// codel is a queue in front of a fixed number of workers. While it has not been empty for 100
// ms, the newest job is first and jobs wait at most 5 ms (Facebook, Fail at Scale, 2015).
type codel struct {
	workers int
	queue   []*job
	emptied time.Duration
}

func (c *codel) ask(s *site, j *job) {
	if s.running < c.workers {
		c.emptied = s.world.now
		s.start(j)
		return
	}
	c.queue = append(c.queue, j)
	c.drop(s)
}

func (c *codel) overloaded(s *site) bool { return s.world.now-c.emptied > 100*time.Millisecond }

func (c *codel) drop(s *site) {
	most := 100 * time.Millisecond
	if c.overloaded(s) {
		most = 5 * time.Millisecond
	}
	for len(c.queue) > 0 && s.world.now-c.queue[0].arrived > most {
		s.refuse(c.queue[0], 0)
		c.queue = c.queue[1:]
	}
}

func (c *codel) done(s *site, _ *job) {
	c.drop(s)
	if len(c.queue) == 0 {
		c.emptied = s.world.now
	}
	for s.running < c.workers && len(c.queue) > 0 {
		at := 0
		if c.overloaded(s) {
			at = len(c.queue) - 1
		}
		j := c.queue[at]
		c.queue = append(c.queue[:at:at], c.queue[at+1:]...)
		s.start(j)
	}
}

func (c *codel) tick(s *site) { c.done(s, nil) }

// bbr refuses jobs while the processors are busy and more calls run than the product of the
// best rate and the shortest time, as the shedders of go-zero and kratos do.
type bbr struct {
	passes  [50]int
	times   [50]time.Duration // sums
	bucket  int
	began   time.Duration
	flying  float64 // a moving average
	dropped time.Duration
}

func (b *bbr) roll(now time.Duration) {
	for now-b.began >= 100*time.Millisecond {
		b.began += 100 * time.Millisecond
		b.bucket = (b.bucket + 1) % len(b.passes)
		b.passes[b.bucket], b.times[b.bucket] = 0, 0
	}
}

func (b *bbr) most() float64 {
	pass, least := 1, time.Second
	for i, n := range b.passes {
		if i == b.bucket || n == 0 {
			continue
		}
		pass = max(pass, n)
		least = min(least, b.times[i]/time.Duration(n))
	}
	return math.Max(1, float64(pass)*10*least.Seconds())
}

func (b *bbr) ask(s *site, j *job) {
	b.roll(s.world.now)
	if (s.load > 0.9 || b.dropped > 0 && s.world.now-b.dropped < time.Second) && b.flying > b.most() && float64(s.running) > b.most() {
		if s.load > 0.9 {
			b.dropped = s.world.now
		}
		s.refuse(j, 0)
		return
	}
	s.start(j)
}

func (b *bbr) done(s *site, j *job) {
	b.roll(s.world.now)
	b.flying = 0.9*b.flying + 0.1*float64(s.running)
	b.passes[b.bucket]++
	b.times[b.bucket] += s.world.now - j.started
}

func (*bbr) tick(*site) {}

// gradient sets its limit by the ratio of the long-term latency to the present one (Netflix,
// gradient2).
type gradient struct{ limit, long float64 }

func (g *gradient) ask(s *site, j *job) {
	if float64(s.running) >= g.limit {
		s.refuse(j, 0)
		return
	}
	s.start(j)
}

func (g *gradient) done(s *site, j *job) {
	took := (s.world.now - j.started).Seconds()
	if g.long == 0 {
		g.long = took
	}
	g.long += (took - g.long) / 600
	if g.long > 2*took {
		g.long *= 0.95
	}
	if float64(s.running) < g.limit/2 {
		return
	}
	slope := math.Max(0.5, math.Min(1, 1.5*g.long/took))
	g.limit = math.Max(20, 0.8*g.limit+0.2*(g.limit*slope+4))
}

func (*gradient) tick(*site) {}
