package sim

import (
	"math"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
)

// staleReports: the loads that clients get from the registry are 5 to 30 s old (reliability
// F29).
func staleReports() *Scenario {
	return &Scenario{
		Name:  "stale-reports",
		Title: "Load reports are 5 to 30 s old: the most loaded server over the mean",
		Story: "1,000 clients make 5,000 calls a second to 100 servers, each of which reports its load to the registry " +
			"every 20 s; a client sees a report 5 to 10 s later. Measured from 30 s on, over 10 s at a time.",
		Defence: "LeastReported, whose odds follow the reports; and P2C, by what the client sees itself", Against: "least reported",
		Faults: []string{"best of all"},
		Figures: []Figure{
			{What: "most loaded server over the mean, worst 10 s, LeastReported", Limit: 1.3},
			{What: "most loaded server over the mean, worst 10 s, P2C", Limit: 1.3},
			{What: "calls that fail", Limit: 0.001, Percent: true},
		},
		X: "seconds", Y: "most loaded / mean", LogY: true,
		play: playStaleReports,
	}
}

func playStaleReports(s setting) measured {
	if s.naive || s.fault == "best of all" {
		worst, failed, line, w := stale(s, leastReported())
		return measured{values: []float64{worst, math.NaN(), failed}, line: line, worlds: []*world{w}}
	}
	reported, failed, line, w := stale(s, balance.LeastReported())
	own, alsoFailed, ownLine, ownWorld := stale(s, balance.P2C())
	return measured{
		values: []float64{reported, own, max(failed, alsoFailed)},
		line:   line,
		more:   []Series{{Name: "tandem, P2C", Style: 2, Points: ownLine}},
		worlds: []*world{w, ownWorld},
	}
}

// stale plays a minute under one policy, and returns the worst load over the mean,
// the share of calls that failed, and the load over the mean as a line.
func stale(s setting, policy balance.Policy) (worst, failed float64, line []Point, w *world) {
	c := newCluster(newWorld(s.seed))
	c.addServers(100, 8, 5*time.Millisecond)
	c.addClients(1000, settings{policy: policy, timeout: time.Second, ejection: !s.naive})
	c.report(20*time.Second, 5*time.Second)
	const to = 60
	c.load(steady(5), to*time.Second)
	c.finish((to + 5) * time.Second)
	for sec := 0; sec < to; sec += 10 {
		now := unevenness(c.servers, sec, sec+10)
		line = append(line, dot(float64(sec), now))
		if sec >= 30 {
			worst = max(worst, now)
		}
	}
	return worst, 1 - c.good(30*time.Second, to*time.Second), line, c.world
}

// report makes every server report its load to the registry at that interval. The clients get
// the reports at least later, all clients at the same time.
func (c *cluster) report(every, later time.Duration) {
	for _, s := range c.servers {
		before := 0
		tell := func() {
			now := s.calls(0, len(s.arrivals))
			load := &tandem.Load{At: c.time(), Rate: float64(now-before) / every.Seconds(), InFlight: s.busy, Queued: len(s.queue)}
			before = now
			c.after(later, func() { s.instance.Load = load })
		}
		c.after(time.Duration(c.random.Int64N(int64(every))), func() {
			tell()
			c.every(every, tell)
		})
	}
	c.every(5*time.Second, func() {
		list := c.list()
		c.note(noteListed, uint64(len(list)), 0)
		for _, k := range c.clients {
			k.table.Update(list)
		}
	})
}
