package sim

import (
	"math"
	"strconv"
	"time"

	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/resilience"
)

// massRestart: a new version is deployed to all servers.
func massRestart() *Scenario {
	return &Scenario{
		Name:  "mass-restart",
		Title: "All servers are restarted, three at a time: share of new instances in their first 5 s",
		Story: "100 clients make 3,000 calls a second to 30 servers that need 5 ms. Every 6 s three of them are drained " +
			"and replaced by new instances, which need 50 ms for a call in their first 3 s (cold caches) and are connected to " +
			"when the clients' backoff lets them. P2C remembers a cold start for some seconds, in which a new instance " +
			"has less than its share.",
		Defence: "slow start over 30 s, P2C", Against: "least latency, the unknown first",
		Faults: []string{"no slow start", "no drain, no failover"},
		Figures: []Figure{
			{What: "most loaded new instance in its first 5 s over the mean of all servers", Limit: 1.5},
			{What: "least loaded new instance from 40 to 45 s after its start over the mean", Limit: 0.8, AtLeast: true},
			{What: "calls that fail", Limit: 0, Percent: true},
			{What: "p99 while restarting", Limit: 20, Unit: "ms"},
		},
		X: "wave", Y: "most loaded new instance / mean",
		play: playMassRestart,
	}
}

const (
	wave  = 6 * time.Second
	waves = 10
)

func playMassRestart(s setting) measured {
	c := newCluster(newWorld(s.seed))
	c.addServers(30, 8, 5*time.Millisecond)
	set := settings{policy: balance.SlowStart(30*time.Second, balance.P2C()), timeout: time.Second, retries: 2, elsewhere: true, budgeted: true, ejection: true}
	abrupt := s.fault == "no drain, no failover"
	switch {
	case s.naive:
		set.policy = leastLatency()
	case s.fault == "no slow start":
		set.policy = balance.P2C()
	case abrupt:
		set.retries = 0
	}
	c.addClients(100, set)
	for i := range waves {
		c.after(wave*time.Duration(i+1), func() {
			for _, old := range c.servers[3*i : 3*i+3] {
				c.restart(old, !abrupt)
			}
		})
	}
	const to = wave*(waves+1) + 45*time.Second
	c.load(steady(30), to)
	c.finish(to + 5*time.Second)
	most, least := 0.0, math.Inf(1)
	var line []Point
	for i := range waves {
		first := int(wave.Seconds())*(i+1) + 1
		peak := 0.0
		for n := 3 * i; n < 3*i+3; n++ {
			peak = max(peak, c.share(n, first, first+5)*30)
			least = min(least, c.share(n, first+40, first+45)*30)
		}
		line = append(line, dot(float64(i+1), peak))
		most = max(most, peak)
	}
	return measured{
		values: []float64{most, least, 1 - c.good(0, to), c.quantile(0.99, wave, wave*(waves+1))},
		line:   line,
		worlds: []*world{c.world},
	}
}

// restart replaces a server: it is drained, starts again after a second with another ID, and is
// slow at first.
func (c *cluster) restart(s *server, drain bool) {
	if !drain {
		s.stop()
		c.disconnect(s)
	} else { // no new calls; those in flight end
		for _, k := range c.clients {
			k.member(s.instance.ID).lost = true
		}
	}
	c.after(time.Second, func() {
		s.stop()
		s.lose()
		delete(c.index, s.instance.ID)
		s.instance.ID = "s" + strconv.Itoa(s.number) + "-new"
		c.index[s.instance.ID] = s.number
		s.start()
		warm := s.takes
		s.takes = func() time.Duration { return 10 * warm() }
		c.after(3*time.Second, func() { s.takes = warm })
		list := c.list()
		backoff := resilience.Backoff{First: 100 * time.Millisecond, Most: 3 * time.Second}
		for _, k := range c.clients {
			k.member(s.instance.ID).lost = true
			k.table.Update(list)
			c.after(backoff.Pause(0, c.random.Float64()), func() { k.member(s.instance.ID).lost = false })
		}
	})
}
