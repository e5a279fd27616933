package sim

import (
	"time"

	"github.com/tandem-rpc/tandem/balance"
)

// layers: the last of four services fails, and each before it retries (reliability
// F16).
func layers() *Scenario {
	return &Scenario{
		Name:  "layers",
		Title: "The last of four layers fails for 60 s: attempts at each layer for each call at the first",
		Story: "10 clients make 2,000 calls a second to a service that calls a second one, that a third, that the leaf, each of " +
			"10 servers. All servers of the leaf fail. Each layer may try a call four times.",
		Defence: "one layer retries, from a budget", Against: "three retries in each layer",
		Faults: []string{"every layer retries", "no budget"},
		Figures: []Figure{
			{What: "attempts at the leaf for each call", Limit: 1.2},
		},
		X: "layer", Y: "attempts / calls", LogY: true,
		Marks: []string{"first", "second", "third", "leaf"},
		play:  playLayers,
	}
}

const depth = 4

func playLayers(s setting) measured {
	w := newWorld(s.seed)
	rate, lasts := 200.0, time.Minute
	if s.naive || s.fault != "" {
		lasts = time.Second // 64 attempts for each call
	}
	set := settings{
		policy: balance.P2C(), timeout: 5 * time.Second, retries: 3, elsewhere: true,
		budgeted: !s.naive && s.fault != "no budget", chain: !s.naive && s.fault != "every layer retries",
		ejection: !s.naive,
	}
	var nets [depth]*cluster
	for i := range nets {
		nets[i] = newCluster(w)
		nets[i].addServers(10, 100, 2*time.Millisecond)
		nets[i].addClients(10, set) // of layer 0: users; else one in each server of the layer above
	}
	for i := range depth - 1 {
		nets[i].forward(nets[i+1])
	}
	nets[depth-1].fail(errFails)
	nets[0].load(steady(rate), lasts)
	for i := range nets {
		nets[i].finish(lasts + 10*time.Second)
	}
	m := measured{worlds: []*world{w}}
	for i, n := range nets {
		m.line = append(m.line, dot(float64(i), float64(n.attempts)/float64(nets[0].begun)))
	}
	m.values = []float64{m.line[depth-1].Y}
	return m
}

// forward makes each server answer with the result of a call to the next service, errors
// included.
func (c *cluster) forward(next *cluster) {
	for i, s := range c.servers {
		client := next.clients[i]
		s.serve = func(a *attempt, reply func(error)) {
			k := client.start("", reply)
			k.retried = a.number > 0
			k.try()
		}
	}
}
