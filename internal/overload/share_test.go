package overload_test

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/internal/overload"
)

// pooled is a server in virtual time whose handlers need one of a pool of connections for some
// time, and wait for it until their deadlines.
type pooled struct {
	gate    *overload.Gate
	method  *overload.Method
	now     int64
	events  events
	free    int      // connections
	hold    int64    // ns
	patient int64    // deadline of a request
	line    []*visit // handlers that wait for a connection
	heeds   bool
	random  *rand.Rand
	callers []counts
	took    int64 // ns, by handlers that have ended
	ended   int64 // handlers
}

// counts are the numbers of a caller's requests, and of those that ended in time.
type counts struct{ made, good int }

// visit is a request and the state of its handler.
type visit struct {
	*overload.Request
	overload.Handled

	caller int
	began  int64
	served bool
}

// event is something that happens at a time.
type event struct {
	at int64
	do func()
}

type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at < e[j].at }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	*e = (*e)[:last]
	return x
}

// newPooled returns such a server, with 16 connections and handlers that need one for 50 ms.
func newPooled(cfg overload.Config, patient int64, heeds bool, callers int) *pooled {
	p := &pooled{
		gate: overload.New(cfg), now: second, free: 16, hold: 50 * ms, patient: patient, heeds: heeds,
		random: rand.New(rand.NewPCG(1, 2)), callers: make([]counts, callers),
	}
	p.method = p.gate.Method(p.now)
	p.sample()
	return p
}

func (p *pooled) at(t int64, f func()) { heap.Push(&p.events, event{t, f}) }

// arrive makes a request of a caller.
func (p *pooled) arrive(caller int) {
	v := &visit{caller: caller}
	v.Request = &overload.Request{Method: p.method, Caller: uint64(caller), Class: overload.Normal, Deadline: p.now + p.patient, Owner: v}
	p.callers[caller].made++
	switch verdict, _ := p.gate.Ask(v.Request, p.now); verdict {
	case overload.Run:
		p.begin(v)
	case overload.Wait:
		p.at(v.Deadline, func() { p.gate.Leave(v.Request) })
	}
}

func (p *pooled) begin(v *visit) {
	v.began = p.now
	v.Handled = p.method.Begin(v.Request, p.now, v.Deadline)
	if p.free > 0 {
		p.serve(v)
		return
	}
	p.line = append(p.line, v)
	p.at(v.Deadline, func() {
		if !v.served && p.heeds {
			p.line = slices.DeleteFunc(p.line, func(other *visit) bool { return other == v })
			p.end(v, true)
		}
	})
}

func (p *pooled) serve(v *visit) {
	v.served = true
	p.free--
	p.at(p.now+p.hold, func() {
		p.free++
		if p.now < v.Deadline {
			p.callers[v.caller].good++
		}
		if len(p.line) > 0 && p.free > 0 {
			next := p.line[0]
			p.line = p.line[1:]
			p.serve(next)
		}
		p.end(v, false)
	})
}

func (p *pooled) end(v *visit, failed bool) {
	p.took, p.ended = p.took+p.now-v.began, p.ended+1
	v.Handled.Failed = failed
	for _, r := range p.gate.Done(&v.Handled, p.now).Run {
		p.begin(r.Owner.(*visit))
	}
}

// sample tells the gate every 10 ms that no goroutine waits for a processor.
func (p *pooled) sample() {
	for _, r := range p.gate.Sample(overload.Load{Timeout: time.Duration(p.patient)}, p.now).Run {
		p.begin(r.Owner.(*visit))
	}
	p.at(p.now+10*ms, p.sample)
}

// run plays the events until that time.
func (p *pooled) run(until int64) {
	for p.now < until && len(p.events) > 0 {
		e := heap.Pop(&p.events).(event)
		p.now = e.at
		e.do()
	}
}

// comes makes a caller send requests at a rate, as a Poisson process.
func (p *pooled) comes(caller int, rate float64, from, until int64) {
	if next := max(p.now, from+int64(p.random.ExpFloat64()/rate*float64(second))); next < until {
		p.at(next, func() {
			p.arrive(caller)
			p.comes(caller, rate, next, until)
		})
	}
}

// A caller that floods a method does not take the share of others, whether the handlers stop at
// their deadlines or not. The first seconds, in which the limit is found, do not count.
func TestGreedyCallerKeepsToItsShare(t *testing.T) {
	const capacity, others, finding, last = 320.0, 9, 6 * second, 66 * second
	for _, heeds := range []bool{true, false} {
		p := newPooled(overload.Config{}, second, heeds, 1+others)
		p.comes(0, 3*capacity, second, last)
		for i := range others {
			p.comes(1+i, 0.09*capacity, second, last)
		}
		p.run(second + finding)
		clear(p.callers)
		p.run(last)
		all, fair := counts{}, counts{}
		for i, c := range p.callers {
			all.good += c.good
			if i > 0 {
				fair.made, fair.good = fair.made+c.made, fair.good+c.good
			}
		}
		if served, least := float64(all.good), 0.94*capacity*float64(last-second-finding)/float64(second); served < least {
			t.Errorf("heeding %v: %v served, want %v", heeds, served, least)
		}
		if fair.good < fair.made*98/100 {
			t.Errorf("heeding %v: of %d calls of the others %d succeed", heeds, fair.made, fair.good)
		}
	}
}

// With a gradient, a limit of the running handlers follows their latency: they take little
// longer than usual, even if their deadlines are far away. Without, they may take half of the
// time that they have.
func TestGradientKeepsLatency(t *testing.T) {
	const capacity, calm, overloaded = 320.0, 60 * second, 30 * second
	for gradient, want := range map[float64]func(time.Duration) bool{
		0:   func(took time.Duration) bool { return took > 500*time.Millisecond },
		1.5: func(took time.Duration) bool { return took < 150*time.Millisecond },
	} {
		p := newPooled(overload.Config{Gradient: gradient}, 10*second, true, 1)
		p.comes(0, 0.5*capacity, second, calm)
		p.run(calm)
		if _, limit, _ := p.method.State(p.gate); limit < 1<<30 {
			t.Errorf("gradient %v: a limit of %d without overload", gradient, limit)
		}
		p.comes(0, 3*capacity, calm, calm+overloaded)
		p.run(calm + overloaded/2)
		p.took, p.ended = 0, 0
		p.callers[0] = counts{}
		p.run(calm + overloaded)
		if took := time.Duration(p.took / p.ended); !want(took) {
			t.Errorf("gradient %v: handlers take %v", gradient, took)
		}
		if served, least := p.callers[0].good, int(0.9*capacity*float64(overloaded/2)/float64(second)); gradient > 0 && served < least {
			t.Errorf("gradient %v: %d served, want %d", gradient, served, least)
		}
		p.run(calm + 3*overloaded)
		if _, limit, _ := p.method.State(p.gate); gradient > 0 && limit < 16 {
			t.Errorf("gradient %v: a limit of %d is left", gradient, limit)
		}
	}
}

// A pause of the process makes handlers late that ran meanwhile, and says nothing about the limit.
func TestPausesCutNoLimit(t *testing.T) {
	p := newPooled(overload.Config{}, second, true, 1)
	p.free, p.hold = 100, 200*ms
	p.comes(0, 0.8*500, second, 20*second)
	p.run(10 * second)
	for range 3 { // before the first there were many quick handlers
		for i := range p.events { // all events of the next 1.5 s happen at their end
			p.events[i].at = max(p.events[i].at, p.now+3*second/2)
		}
		heap.Init(&p.events)
		p.run(p.now + 3*second/2 + 10*ms)
		if _, limit, _ := p.method.State(p.gate); limit < 1<<30 {
			t.Errorf("a limit of %d", limit)
		}
	}
}
