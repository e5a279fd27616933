package sim

import (
	"math"
	"time"

	"github.com/tandem-rpc/tandem/balance"
)

// newcomer: a server is added to a few lightly loaded ones.
func newcomer() *Scenario {
	return &Scenario{
		Name:  "newcomer",
		Title: "A fourth server joins three that are nearly idle: its share of the calls",
		Story: "10 clients make 300 calls a second to three servers that need 2, 2.4 and 3 ms, so that hardly ever two calls are in flight. " +
			"After 20 s a fourth is listed, which needs 2 ms, but 20 ms for each of its first 30 calls.",
		Defence: "P2C", Against: "least latency, the unknown first",
		Faults: []string{"forgetful"},
		Figures: []Figure{
			{What: "least loaded of three idle servers over their mean", Limit: 0.6, AtLeast: true},
			{What: "the new server in its first second over the mean", Limit: 1.5},
			{What: "the new server 5 s later over the mean", Limit: 0.5, AtLeast: true},
		},
		X: "seconds", Y: "share of the new server, %",
		play: playNewcomer,
	}
}

func playNewcomer(s setting) measured {
	set := settings{policy: balance.P2C(), timeout: time.Second}
	if s.naive {
		set.policy = leastLatency()
	}
	const joins, to = 20, 40
	c := newCluster(newWorld(s.seed))
	for _, takes := range []time.Duration{2000 * time.Microsecond, 2400 * time.Microsecond, 3 * time.Millisecond} {
		c.addServers(1, 8, takes)
	}
	c.addClients(10, set)
	c.load(steady(30), to*time.Second)
	c.after(joins*time.Second, func() {
		c.addServers(1, 8, 2*time.Millisecond)
		fourth := c.servers[3]
		warm, calls := fourth.takes, 0
		fourth.takes = func() time.Duration {
			if calls++; calls <= 30 {
				return 10 * warm()
			}
			return warm()
		}
		for _, k := range c.clients {
			if s.fault == "forgetful" {
				k.renew()
			} else {
				k.table.Update(c.list())
			}
		}
	})
	c.finish((to + 5) * time.Second)
	least := math.Inf(1)
	for n := range 3 {
		least = min(least, 3*c.share(n, 5, joins))
	}
	return measured{
		values: []float64{least, 4 * c.share(3, joins+1, joins+2), 4 * c.share(3, joins+6, joins+8)},
		line:   seconds(to, func(sec int) float64 { return 100 * float64(c.servers[3].calls(sec, sec+1)) / 300 }),
		worlds: []*world{c.world},
	}
}
