package sim

import (
	"strconv"
	"time"

	"github.com/tandem-rpc/tandem/balance"
)

// weightedPolicies are the policies that give an instance calls in proportion to its weight.
func weightedPolicies() []balance.Policy {
	return []balance.Policy{balance.RoundRobin(), balance.Random(), balance.P2C(), balance.LeastInFlight(), balance.Maglev(), balance.RingHash()}
}

// weights: machines of three sizes.
func weights() *Scenario {
	s := &Scenario{
		Name:  "weights",
		Title: "Servers with weights 1 : 2 : 4: most loaded over the mean, for their weight",
		Story: "100 clients make 4,000 calls a second, each with one of 100,000 keys, to 12 servers with weights of 100, 200 and " +
			"400 and with two workers for every 100, which need 5 ms: a third of what they can do. Measured from 5 s on for 20 s. " +
			"With ring_hash, an instance of weight 100 has 43 points, and the lengths of their arcs vary: one standard deviation is 15 % of its " +
			"share, and of four such instances one may have two of them more. Naive here is each policy without being told the weights.",
		Defence: "with weights", Against: "without weights",
		Faults: []string{"weights unknown"},
		Y:      "most loaded / mean",
		play:   playWeights,
	}
	for _, p := range weightedPolicies() {
		limit := 1.1
		if p.Name() == balance.RingHash().Name() {
			limit = 1.35
		}
		s.Marks = append(s.Marks, p.Name())
		s.Figures = append(s.Figures, Figure{What: p.Name(), Limit: limit})
	}
	return s
}

func playWeights(s setting) (m measured) {
	for i, p := range weightedPolicies() {
		c := newCluster(newWorld(s.seed))
		for k := range 12 {
			parts := 1 << (k % 3)
			c.addServers(1, 2*parts, 5*time.Millisecond)
			if !s.naive && s.fault == "" {
				c.servers[k].instance.Weight = 100 * parts
			}
		}
		c.addClients(100, settings{policy: p, timeout: time.Second})
		for k, server := range c.servers { // so that unevenness has the weights even if clients don't
			server.instance.Weight = 100 << (k % 3)
		}
		for _, k := range c.clients {
			var next func()
			next = func() {
				if c.since() < 25*time.Second {
					k.record(strconv.Itoa(c.random.IntN(100_000)))
					c.after(c.gap(40), next)
				}
			}
			c.after(c.gap(40), next)
		}
		c.finish(30 * time.Second)
		uneven := unevenness(c.servers, 5, 25)
		m.values = append(m.values, uneven)
		m.line = append(m.line, dot(float64(i), uneven))
		m.worlds = append(m.worlds, c.world)
	}
	return m
}
