package sim

import (
	"time"

	"github.com/tandem-rpc/tandem/balance"
)

// errorNode: one of ten servers quickly answers every call with an error.
func errorNode() *Scenario {
	return &Scenario{
		Name:  "error-node",
		Title: "One of ten servers answers every call with an error, quickly",
		Story: "100 clients make 2,000 calls a second to 10 servers that need 5 ms. After 5 s one of them answers " +
			"every call with an error, in 0.1 ms. Measured from 5 s later on. P2C alone does not take a quick error for a quick answer, but forgives with " +
			"time what it does not see answered: the planted fault shows that. Ejection leaves the server out.",
		Defence: "P2C, ejection, failover", Against: "least latency of all answers",
		Faults: []string{"no ejection", "no failover"},
		Figures: []Figure{
			{What: "share of the attempts to the failing server", Limit: 0.01, Percent: true},
			{What: "calls that fail", Limit: 0.001, Percent: true},
		},
		X: "seconds", Y: "share of the failing server, %",
		play: playErrorNode,
	}
}

func playErrorNode(s setting) measured {
	c := newCluster(newWorld(s.seed))
	c.addServers(10, 8, 5*time.Millisecond)
	set := settings{policy: balance.P2C(), timeout: time.Second, retries: 2, elsewhere: true, budgeted: true, ejection: true}
	switch {
	case s.naive:
		set = settings{policy: leastLatency(), timeout: time.Second}
	case s.fault == "no failover":
		set.retries = 0
	case s.fault == "no ejection":
		set.ejection = false
	}
	c.addClients(100, set)
	c.after(5*time.Second, func() { c.servers[0].fails = errFails })
	c.load(steady(20), 60*time.Second)
	c.finish(65 * time.Second)
	const from, to = 10, 60
	return measured{
		values: []float64{c.share(0, from, to), 1 - c.good(from*time.Second, to*time.Second)},
		line:   seconds(to, func(sec int) float64 { return 100 * c.share(0, sec, sec+1) }),
		worlds: []*world{c.world},
	}
}
