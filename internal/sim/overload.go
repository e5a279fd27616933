package sim

import (
	"math"
	"time"

	"github.com/tandem-rpc/tandem/internal/overload"
	"github.com/tandem-rpc/tandem/resilience"
)

// job is a call at a host.
type job struct {
	caller   *flooder
	method   *work
	begun    time.Duration
	deadline time.Duration
	arrived  time.Duration // estimated by the server
	started  time.Duration
	tries    int
	over     bool // the caller has stopped waiting
	request  *overload.Request
	handled  overload.Handled
}

// work is what a method's handlers do: use a processor, and then hold a connection of a pool.
type work struct {
	cpu   func() time.Duration
	hold  func() time.Duration // nil: no pool
	pool  *pool
	heeds bool             // gives up at the deadline
	state *overload.Method // nil until the gate has seen a call of the method
}

// admission decides which requests of a host run, wait or are refused.
type admission interface {
	// ask begins, queues or refuses a job.
	ask(s *site, j *job)
	// done is called when a handler has ended.
	done(s *site, j *job)
	// tick is called every 10 ms.
	tick(s *site)
}

// Costs of a server, close to the measured ones.
const (
	readCost   = 3 * time.Microsecond
	refuseCost = 5 * time.Microsecond
	startCost  = 4 * time.Microsecond
)

// site is a server under overload: connections with a reader each, and handlers, on a host.
type site struct {
	*host

	admission admission
	running   int
	load      float64 // share of processor time used lately
	lastBusy  time.Duration
}

// link is a connection. Jobs that arrive stay in the kernel until the reader gets a processor.
type link struct {
	site    *site
	inbox   []*job
	reading bool
	emptied time.Duration // when the reader last found the inbox empty
}

func newSite(w *world, procs int, a admission) *site {
	s := &site{host: newHost(w, procs), admission: a}
	w.every(10*time.Millisecond, func() {
		s.load = 0.95*s.load + 0.05*float64(s.busy-s.lastBusy)/float64(10*time.Millisecond*time.Duration(procs))
		s.lastBusy = s.busy
		a.tick(s)
		s.waits = s.waits[:0]
	})
	return s
}

func (l *link) receive(j *job) {
	l.inbox = append(l.inbox, j)
	l.read()
}

// read lets the reader take all jobs that have arrived, when it gets a processor.
func (l *link) read() {
	if l.reading || len(l.inbox) == 0 {
		return
	}
	l.reading = true
	s := l.site
	s.spend(readCost, func() {
		batch := l.inbox
		l.inbox = nil
		s.spend(time.Duration(len(batch))*readCost, func() {
			now := s.world.now
			for i, j := range batch {
				j.arrived = l.emptied + time.Duration(float64(now-l.emptied)*float64(i+1)/float64(len(batch)))
				s.admission.ask(s, j)
			}
			l.emptied = now
			l.reading = false
			l.read()
		})
	})
}

// start runs the handler of a job.
func (s *site) start(j *job) {
	s.running++
	j.started = s.world.now
	if r := j.request; r != nil {
		j.handled = r.Method.Begin(r, int64(j.started), r.Deadline)
	}
	m := j.method
	end := func(ok bool) {
		s.running--
		s.admission.done(s, j)
		s.world.after(delayOf(s.world), func() { j.answer(ok, 0) })
	}
	s.spend(startCost+m.cpu(), func() {
		switch {
		case m.heeds && s.world.now >= j.deadline:
			end(false)
		case m.pool == nil:
			end(true)
		default:
			until := time.Duration(0)
			if m.heeds {
				until = j.deadline
			}
			m.pool.borrow(until, func() {
				s.world.after(m.hold(), func() {
					m.pool.giveBack()
					end(true)
				})
			}, func() { end(false) })
		}
	})
}

// refuse answers a job that is not run. The caller is asked to wait for after.
func (s *site) refuse(j *job, after time.Duration) {
	s.spend(refuseCost, func() {
		s.world.after(delayOf(s.world), func() { j.answer(false, max(after, time.Millisecond)) })
	})
}

func delayOf(w *world) time.Duration { return w.about(200 * time.Microsecond) }

// flooder is a client that makes calls at its rate, whatever their results are.
type flooder struct {
	world   *world
	link    *link
	timeout time.Duration
	retries int
	budget  *resilience.Budget
	record  *tally
	number  int
}

// tally counts a client's calls by the second in which they began.
type tally struct {
	made, good []int
	attempts   int
}

func (t *tally) at(list *[]int, at time.Duration) *int {
	i := int((at - began) / time.Second)
	for len(*list) <= i {
		*list = append(*list, 0)
	}
	return &(*list)[i]
}

// load makes calls of a method at random times.
func (f *flooder) load(m *work, rate func() float64, until time.Duration) {
	var next func()
	next = func() {
		if f.world.since() >= until {
			return
		}
		if rate() > 0 {
			f.call(m)
		}
		f.world.after(f.world.gap(math.Max(rate(), 0.1)), next)
	}
	f.world.after(f.world.gap(math.Max(rate(), 0.1)), next)
}

func (f *flooder) call(m *work) {
	now := f.world.now
	j := &job{caller: f, method: m, begun: now, deadline: now + f.timeout}
	*f.record.at(&f.record.made, now)++
	j.try()
}

func (j *job) try() {
	f := j.caller
	f.record.attempts++
	j.tries++
	f.world.after(delayOf(f.world), func() { f.link.receive(j) })
}

// answer passes the result to the caller. If after is not zero the job was refused, and may be
// tried again after that pause.
func (j *job) answer(ok bool, after time.Duration) {
	f := j.caller
	if j.over {
		return
	}
	now := f.world.now
	f.world.note(noteEnded, uint64(f.number), uint64(j.tries)<<1|boolean(ok)) //nolint:gosec // small
	switch {
	case now > j.deadline:
		j.over = true
	case ok:
		j.over = true
		f.budget.Call()
		*f.record.at(&f.record.good, j.begun)++
	case after > 0 && j.tries <= f.retries && now+after < j.deadline && f.budget.Take(f.world.time()):
		k := *j // the server may still have a reference to j
		j.over = true
		f.world.after(after, k.try)
	default:
		j.over = true
	}
}

func boolean(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// goodput returns how many calls succeeded a second, from second from to before to.
func (t *tally) goodput(from, to int) float64 {
	n := 0
	for i := from; i < min(to, len(t.good)); i++ {
		n += t.good[i]
	}
	return float64(n) / float64(to-from)
}

func (t *tally) offered(from, to int) float64 {
	n := 0
	for i := from; i < min(to, len(t.made)); i++ {
		n += t.made[i]
	}
	return float64(n) / float64(to-from)
}
