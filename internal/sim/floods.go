package sim

import (
	"fmt"
	"math"
	"time"

	"github.com/tandem-rpc/tandem/internal/overload"
	"github.com/tandem-rpc/tandem/resilience"
)

// flood is a server that gets several times the calls that it can do, for half a minute.
type flood struct {
	name, title, story string

	methods  func(w *world) []*work
	rate     func(times float64, client, method int) float64 // calls a second of a client
	loads    [2]float64                                      // times what the server can do; the first is plotted
	calm     func(times float64, after bool) float64         // the load before and after; nil: calmShare
	watched  int                                             // the method whose calls count
	only     func(client int) bool                           // the clients whose calls count; nil for all
	capacity float64                                         // for the calls that count, a second
	possible func(times float64) float64                     // goodput under load, if it isn't the capacity
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
	floodShare   = 0.1 // of the calls that succeed, for retries
	floodFloor   = 1.0 // retries a second in addition
)

// floods returns the scenarios of overload: B14 of the scorecard.
func floods() []*Scenario {
	var list []*Scenario
	for _, f := range []flood{
		floodCPU(), floodPool(true), floodPool(false), floodMethods(), floodGreedy(), floodBimodal(), floodCold(), floodDependency(),
	} {
		if f.loads == [2]float64{} {
			f.loads = [2]float64{3, 10}
			f.story += " From 10 s to 40 s clients make three times as many calls as the server can do (the plot), or ten times."
		}
		if f.possible == nil {
			f.possible = func(float64) float64 { return f.capacity }
		}
		list = append(list, f.scenario())
	}
	return list
}

func (f *flood) scenario() *Scenario {
	return &Scenario{
		Name: f.name, Title: f.title,
		Story: f.story + " There are 100 clients, with one second for a call and two retries under a budget of a tenth. " +
			"The server has two processors; reading a request costs 3 µs and refusing one 5 µs.",
		Defence: "gate", Against: "a server that admits everything",
		Faults: f.faults,
		Figures: []Figure{
			{What: fmt.Sprintf("goodput over the capacity, at %g times", f.loads[0]), Limit: f.least, AtLeast: true, Percent: true},
			{What: fmt.Sprintf("goodput over the capacity, at %g times", f.loads[1]), Limit: f.least, AtLeast: true, Percent: true},
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
	for i, times := range f.loads {
		w, t := f.run(s.seed, times, admit())
		m.worlds = append(m.worlds, w)
		m.values[i] = t.goodput(10, 40) / min(f.possible(times), t.offered(10, 40))
		m.values[2] = min(m.values[2], t.goodput(45, 60)/t.offered(45, 60))
		if i == 0 {
			m.line = f.line(t)
		}
	}
	if s.naive {
		for k, c := range []struct {
			name  string
			admit admission
		}{{"CoDel and newest first", &codel{workers: 64}}, {"BBR", &bbr{}}, {"gradient", &gradient{limit: 20}}} {
			w, t := f.run(s.seed, f.loads[0], c.admit)
			m.worlds = append(m.worlds, w)
			m.more = append(m.more, Series{Name: c.name, Style: 2 + k, Points: f.line(t)})
		}
	}
	return m
}

// checkBudgets checks that there were no more retries than calls and time have paid for, and
// ten seconds' worth of savings.
func (t *tally) checkBudgets(w *world, methods int) {
	made, good := 0, 0
	for _, n := range t.made {
		made += n
	}
	for _, n := range t.good {
		good += n
	}
	most := floodShare*float64(good) + float64(floodClients*methods)*floodFloor*(w.since().Seconds()+10)
	if retried := t.attempts - made; float64(retried) > most {
		w.breaksf("%d retries, the budgets are for %.0f", retried, most)
	}
}

func (f *flood) line(t *tally) []Point {
	return seconds(int(floodWatched/time.Second), func(sec int) float64 { return 100 * t.goodput(sec, sec+1) / f.capacity })
}

// run plays the flood, and returns the results of the calls that count.
func (f *flood) run(seed uint64, times float64, a admission) (*world, *tally) {
	w := newWorld(seed)
	s := newSite(w, 2, a)
	methods := f.methods(w)
	counted, others := &tally{}, &tally{}
	for i := range floodClients {
		l := &link{site: s, emptied: w.now}
		for k, m := range methods {
			c := &flooder{
				world: w, link: l, timeout: time.Second, retries: 2, budget: resilience.NewBudget(floodShare, floodFloor, w.time()),
				record: others, number: i % floodCallers,
			}
			if k == f.watched && (f.only == nil || f.only(i)) {
				c.record = counted
			}
			c.load(m, func() float64 { return f.rateAt(w.since(), times, i, k) }, floodWatched)
		}
	}
	w.run(floodWatched + 2*time.Second)
	for _, t := range []*tally{counted, others} {
		t.checkBudgets(w, len(methods))
	}
	return w, counted
}

// rateAt returns how many calls of a method a client makes a second at that time.
func (f *flood) rateAt(at time.Duration, times float64, client, method int) float64 {
	busy := f.rate(times, client, method)
	switch {
	case at > floodBegins && at < floodEnds:
		return busy
	case f.calm != nil:
		return f.rate(f.calm(times, at >= floodEnds), client, method)
	default:
		return min(calmShare*f.rate(1, client, method), busy)
	}
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

// floodCold is a server that starts with empty caches at 10 s, while its clients already run.
func floodCold() flood {
	const full, warm = 2000.0, 2000.0 // calls a second, and calls that fill the caches
	cost := func(done float64) float64 { return (1 + 9*math.Exp(-done/warm)) / full }
	return flood{
		name: "overload-cold", title: "A server that starts with empty caches: goodput",
		story: "A server whose handlers need 1 ms of a processor, so it can do 2,000 calls a second. It starts at 10 s with empty caches: " +
			"the first handlers need 10 ms, and each that ends makes the next ones quicker (after 2,000 handlers 4.3 ms, after 4,000 2.2 ms). " +
			"From then on clients make nine tenths of the calls that it can do with full caches (the plot), or three times as many; after 40 s six tenths. " +
			"The figures are over what it can do while its caches fill, the plot over what it can do with full ones.",
		methods: func(w *world) []*work {
			started := 0.0
			return []*work{{cpu: func() time.Duration {
				started++
				return w.about(time.Duration(2 * cost(started-1) * float64(time.Second)))
			}, heeds: true}}
		},
		capacity: full, least: 0.85,
		rate:  func(times float64, _, _ int) float64 { return each(full * times) },
		loads: [2]float64{0.9, 3},
		calm: func(_ float64, after bool) float64 {
			if after {
				return calmShare
			}
			return 0
		},
		possible: func(times float64) float64 { // in the mean, by small steps
			const step = 0.001
			done := 0.0
			for range int((floodEnds - floodBegins).Seconds() / step) {
				done += min(full*times, 1/cost(done)) * step
			}
			return done / (floodEnds - floodBegins).Seconds()
		},
		faults: []string{"no bounds of running handlers"},
	}
}

// floodDependency is a server whose database gets slower, beside a method that needs none.
func floodDependency() flood {
	const slower = 5
	return flood{
		name: "overload-dependency", title: "A dependency takes five times as long for 30 s: goodput",
		story: "A server whose handlers hold one of 16 connections to a database for 50 ms, so it can do 320 calls a second. " +
			"From 10 s to 40 s the database needs 250 ms, and the server can do 64. All the time clients make three times as many (the plot), or 4.5 times.",
		methods: func(w *world) []*work {
			m := pooled(w, true)
			m.hold = func() time.Duration {
				if t := w.since(); t > floodBegins && t < floodEnds {
					return w.about(slower * 50 * time.Millisecond)
				}
				return w.about(50 * time.Millisecond)
			}
			return []*work{m}
		},
		capacity: pooledCapacity / slower, least: 0.85,
		rate:   func(times float64, _, _ int) float64 { return each(pooledCapacity / slower * times) },
		loads:  [2]float64{3, 4.5},
		calm:   func(times float64, _ bool) float64 { return times },
		faults: []string{"no limit of methods"},
	}
}
