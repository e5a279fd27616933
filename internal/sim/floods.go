package sim

import (
	"time"

	"github.com/tandem-rpc/tandem/internal/overload"
	"github.com/tandem-rpc/tandem/resilience"
)

// flood is a server that is offered several times what it can do, for half a minute.
type flood struct {
	name, title, story string

	methods  func(w *world) []*work
	rate     func(times float64, client, method int) float64 // calls a second of a client
	watched  int                                             // the method that counts
	only     func(client int) bool                           // the clients that count; nil for all
	capacity float64                                         // of what counts, calls a second
	least    float64                                         // share of the capacity
	faults   []string
}

const (
	floodClients = 100
	floodCallers = 10 // each has ten of the clients
	floodBegins  = 10 * time.Second
	floodEnds    = 40 * time.Second
	floodWatched = 60 * time.Second
	calmShare    = 0.6 // of the capacity, before and after
)

// floods returns the scenarios of overload: B14 of the scorecard.
func floods() []*Scenario {
	var list []*Scenario
	for _, f := range []flood{floodCPU(), floodPool(true), floodPool(false), floodMethods(), floodGreedy(), floodBimodal()} {
		list = append(list, f.scenario())
	}
	return list
}

func (f *flood) scenario() *Scenario {
	return &Scenario{
		Name: f.name, Title: f.title,
		Story: f.story + " 100 clients, one second for a call, two retries under a budget of a tenth. From 10 s to 40 s they make three " +
			"times as many calls as the server can do (the plot), or ten times. The server has two processors; reading a request costs 3 µs and refusing one 5 µs.",
		Defence: "gate", Against: "a server that admits everything",
		Faults: f.faults,
		Figures: []Figure{
			{What: "goodput over the capacity, at 3 times", Limit: f.least, AtLeast: true, Percent: true},
			{What: "goodput over the capacity, at 10 times", Limit: f.least, AtLeast: true, Percent: true},
			{What: "calls that succeed from 5 s after, worst of both", Limit: 0.98, AtLeast: true, Percent: true},
		},
		X: "seconds", Y: "goodput over the capacity, %",
		play: f.play,
	}
}

func (f *flood) play(s setting) measured {
	admit := func() admission { return newGate(s.fault) }
	if s.naive {
		admit = func() admission { return open{} }
	}
	m := measured{values: []float64{0, 0, 1}}
	for i, times := range []float64{3, 10} {
		w, t := f.run(s.seed, times, admit())
		m.worlds = append(m.worlds, w)
		m.values[i] = t.goodput(10, 40) / min(f.capacity, t.offered(10, 40))
		m.values[2] = min(m.values[2], t.goodput(45, 60)/t.offered(45, 60))
		if times == 3 {
			m.line = f.line(t)
		}
	}
	if s.naive {
		for _, c := range []struct {
			name  string
			admit admission
		}{{"CoDel and newest first", &codel{workers: 64}}, {"BBR", &bbr{}}, {"gradient", &gradient{limit: 20}}} {
			w, t := f.run(s.seed, 3, c.admit)
			m.worlds = append(m.worlds, w)
			m.more = append(m.more, Series{Name: c.name, Dashed: true, Points: f.line(t)})
		}
	}
	return m
}

func (f *flood) line(t *tally) []Point {
	return seconds(int(floodWatched/time.Second), func(sec int) float64 { return 100 * t.goodput(sec, sec+1) / f.capacity })
}

// run plays the flood, and returns what became of the calls that count.
func (f *flood) run(seed uint64, times float64, a admission) (*world, *tally) {
	w := newWorld(seed)
	s := newSite(w, 2, a)
	methods := f.methods(w)
	counted, others := &tally{}, &tally{}
	for i := range floodClients {
		l := &link{site: s, emptied: w.now}
		for k, m := range methods {
			c := &flooder{
				world: w, link: l, timeout: time.Second, retries: 2, budget: resilience.NewBudget(0.1, 1, w.time()),
				record: others, number: i % floodCallers,
			}
			if k == f.watched && (f.only == nil || f.only(i)) {
				c.record = counted
			}
			calm, busy := calmShare*f.rate(1, i, k), f.rate(times, i, k)
			c.load(m, func() float64 {
				if t := w.since(); t > floodBegins && t < floodEnds {
					return busy
				}
				return min(calm, busy)
			}, floodWatched)
		}
	}
	w.run(floodWatched + 2*time.Second)
	return w, counted
}

// newGate returns a gate, with a planted fault if there is one.
func newGate(fault string) *guarded {
	cfg := overload.Default()
	cfg.Processors = 2
	g := &guarded{}
	switch fault {
	case "no bounds of running handlers":
		cfg.Busy, cfg.FirstLimit, cfg.LeastLimit = 1e9, 1<<30, 1<<30
	case "no limit of methods":
		cfg.FirstLimit, cfg.LeastLimit = 1<<30, 1<<30
	case "one line for all callers":
		g.oneCaller = true
	case "one queue for all methods":
		g.oneMethod = true
	}
	g.gate = overload.New(cfg)
	return g
}

func each(rate float64) float64 { return rate / floodClients }

func floodCPU() flood {
	return flood{
		name: "overload-cpu", title: "Three times the load, handlers that need the processor: goodput",
		story: "A server whose handlers need 1 ms of a processor, so it can do 2,000 calls a second.",
		methods: func(w *world) []*work {
			return []*work{{cpu: func() time.Duration { return w.about(time.Millisecond) }, heeds: true}}
		},
		capacity: 2000, least: 0.85,
		rate:   func(times float64, _, _ int) float64 { return each(2000 * times) },
		faults: []string{"no bounds of running handlers"},
	}
}

// pooled are handlers that hold one of 16 connections for 50 ms.
func pooled(w *world, heeds bool) *work {
	return &work{
		cpu: func() time.Duration { return 20 * time.Microsecond }, pool: &pool{world: w, free: 16}, heeds: heeds,
		hold: func() time.Duration { return w.about(50 * time.Millisecond) },
	}
}

const pooledCapacity = 320

func floodPool(heeds bool) flood {
	f := flood{
		name: "overload-pool", title: "Three times the load, handlers that wait for a connection: goodput",
		story:    "A server whose handlers hold one of 16 connections for 50 ms, so it can do 320 calls a second; they wait for one until their deadline.",
		methods:  func(w *world) []*work { return []*work{pooled(w, heeds)} },
		capacity: pooledCapacity, least: 0.85,
		rate:   func(times float64, _, _ int) float64 { return each(pooledCapacity * times) },
		faults: []string{"no limit of methods"},
	}
	if !heeds {
		f.name, f.title, f.least = "overload-ignorant", "The same, handlers that ignore their deadline: goodput", 0.6
		f.story = "A server whose handlers hold one of 16 connections for 50 ms, so it can do 320 calls a second; they wait for one as long as it takes."
	}
	return f
}

func floodMethods() flood {
	return flood{
		name: "overload-methods", title: "Two methods, one of them at three times its capacity: goodput of the other",
		story: "A server with two methods, of which one needs 20 ms of a processor and is overloaded. " +
			"The other needs 100 µs, and 1,000 calls a second are made of it; only they count.",
		methods: func(*world) []*work {
			return []*work{
				{cpu: func() time.Duration { return 100 * time.Microsecond }, heeds: true},
				{cpu: func() time.Duration { return 20 * time.Millisecond }, heeds: true},
			}
		},
		capacity: 1000, least: 0.95,
		rate: func(times float64, _, method int) float64 {
			if method == 0 {
				return each(1000)
			}
			return each(90 * times)
		},
		faults: []string{"one queue for all methods"},
	}
}

func floodGreedy() flood {
	const own = 1800 // calls a second of all callers but one
	return flood{
		name: "overload-greedy", title: "One of ten callers makes three times what the server can do: goodput of the others",
		story: "A server whose handlers need 1 ms of a processor, and ten callers. " +
			"Nine have their share of 2,000 calls a second, less a tenth; the tenth caller makes as many as all could. Only the nine count.",
		methods: func(w *world) []*work {
			return []*work{{cpu: func() time.Duration { return w.about(time.Millisecond) }, heeds: true}}
		},
		only:     func(client int) bool { return client%floodCallers != 0 },
		capacity: own * 9 / 10, least: 0.95,
		rate: func(times float64, client, _ int) float64 {
			if client%floodCallers == 0 {
				return each(2000*times) * floodCallers
			}
			return each(own)
		},
		faults: []string{"one line for all callers"},
	}
}

func floodBimodal() flood {
	return flood{
		name: "overload-bimodal", title: "Three times the load, a tenth of the handlers takes fifty times as long: goodput",
		story: "A server whose handlers need 0.2 ms of a processor, and one in ten 10 ms, so it can do 1,690 calls a second.",
		methods: func(w *world) []*work {
			return []*work{{cpu: func() time.Duration {
				if w.random.IntN(10) == 0 {
					return 10 * time.Millisecond
				}
				return 200 * time.Microsecond
			}, heeds: true}}
		},
		capacity: 1690, least: 0.85,
		rate:   func(times float64, _, _ int) float64 { return each(1690 * times) },
		faults: []string{"no bounds of running handlers"},
	}
}
