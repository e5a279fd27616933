package sim

import (
	"time"

	"github.com/tandem-rpc/tandem/balance"
)

// slowNode: one of ten servers becomes fifty times slower (reliability F05).
func slowNode() *Scenario {
	return &Scenario{
		Name:  "slow-node",
		Title: "One of ten servers becomes 50 times slower: its share of the calls",
		Story: "100 clients make 2,000 calls a second to 10 servers that need 2 ms. After 5 s one of them needs 100 ms. " +
			"Measured from 5 s later on. P2C must do it alone, without ejection; and ejection alone, " +
			"of 20 clients under round robin, which does not see what is slow.",
		Defence: "P2C with peak EWMA; ejection", Against: "round robin",
		Faults: []string{"unmeasured", "forgetful", "no ejection"},
		Figures: []Figure{
			{What: "P2C: share of the calls to the slow server", Limit: 0.01, Percent: true},
			{What: "P2C: p99 over that without a slow server", Limit: 1.5},
			{What: "ejection: share of the calls to the slow server", Limit: 0.01, Percent: true},
		},
		X: "seconds", Y: "share of the slow server, %",
		play: playSlowNode,
	}
}

func playSlowNode(s setting) measured {
	set := settings{policy: balance.P2C(), timeout: time.Second, unmeasured: s.fault == "unmeasured"}
	if s.naive {
		set.policy = balance.RoundRobin()
	}
	control, slow := slowCluster(s, set, 100, 2*time.Millisecond), slowCluster(s, set, 100, 100*time.Millisecond)
	set.policy, set.ejection = balance.RoundRobin(), !s.naive && s.fault != "no ejection"
	ejected := slowCluster(s, set, 20, 100*time.Millisecond)
	const from, to = 10, 30
	p99 := func(c *cluster) float64 { return c.quantile(0.99, from*time.Second, to*time.Second) }
	line := func(c *cluster) []Point {
		return seconds(to, func(sec int) float64 { return 100 * c.share(0, sec, sec+1) })
	}
	m := measured{
		values: []float64{slow.share(0, from, to), p99(slow) / p99(control), ejected.share(0, from, to)},
		line:   line(slow),
		worlds: []*world{control.world, slow.world, ejected.world},
	}
	if !s.naive {
		m.more = []Series{{Name: "tandem, ejection alone", Style: 2, Points: line(ejected)}}
	}
	return m
}

// slowCluster plays 30 s of 2,000 calls a second. After 5 s one server needs about slow for a
// call.
func slowCluster(s setting, set settings, clients int, slow time.Duration) *cluster {
	c := newCluster(newWorld(s.seed))
	c.addServers(10, 8, 2*time.Millisecond)
	c.addClients(clients, set)
	if s.fault == "forgetful" { // the statistics are lost with every list
		c.every(200*time.Millisecond, func() {
			for _, k := range c.clients {
				k.renew()
			}
		})
	}
	c.after(5*time.Second, func() { c.servers[0].takes = func() time.Duration { return c.about(slow) } })
	c.load(steady(2000/float64(clients)), 30*time.Second)
	c.finish(40 * time.Second)
	return c
}
