package sim

import (
	"time"

	"github.com/tandem-rpc/tandem/balance"
)

// loadSpike: the load doubles for ten seconds, on machines of two speeds.
func loadSpike() *Scenario {
	return &Scenario{
		Name:  "load-spike",
		Title: "The load doubles for 10 s: p99",
		Story: "1,000 clients make 10,000 calls a second to 100 servers with two workers that need 8 ms, a fifth of them " +
			"12 ms (other machines). From 10 s to 20 s they make 20,000, which is 86 % of what all servers together can do, and 120 % of what the " +
			"slower ones can do if they get as many as the others.",
		Defence: "P2C", Against: "round robin",
		Faults: []string{"unmeasured"},
		Figures: []Figure{
			{What: "calls that succeed in the spike", Limit: 0.999, AtLeast: true, Percent: true},
			{What: "p99 in the spike", Limit: 100, Unit: "ms"},
			{What: "p99 from 2 s after the spike over that before it", Limit: 1.2},
		},
		X: "seconds", Y: "p99, ms", LogY: true,
		play: playLoadSpike,
	}
}

func playLoadSpike(s setting) measured {
	c := newCluster(newWorld(s.seed))
	c.addServers(80, 2, 8*time.Millisecond)
	c.addServers(20, 2, 12*time.Millisecond)
	set := settings{policy: balance.P2C(), timeout: time.Second, unmeasured: s.fault == "unmeasured", ejection: !s.naive}
	if s.naive {
		set.policy = balance.RoundRobin()
	}
	c.addClients(1000, set)
	rate := 10.0
	c.after(10*time.Second, func() { rate = 20 })
	c.after(20*time.Second, func() { rate = 10 })
	c.load(func() float64 { return rate }, 28*time.Second)
	c.finish(40 * time.Second)
	p99 := func(from, to int) float64 {
		return c.quantile(0.99, time.Duration(from)*time.Second, time.Duration(to)*time.Second)
	}
	return measured{
		values: []float64{c.good(10*time.Second, 20*time.Second), p99(12, 20), p99(22, 28) / p99(5, 10)},
		line:   seconds(28, func(sec int) float64 { return min(1000, p99(sec, sec+1)) }),
		worlds: []*world{c.world},
	}
}
