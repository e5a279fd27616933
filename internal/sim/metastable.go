package sim

import (
	"time"

	"github.com/tandem-rpc/tandem/balance"
)

// metastable: a short slowness starts a storm of retries that sustains itself (reliability F17;
// the numbers are those of a published case).
func metastable() *Scenario {
	return &Scenario{
		Name:  "metastable",
		Title: "2 s of slowness, and what comes after: calls that succeed, mean of 20 runs",
		Story: "One server with 4 workers that need 25 ms: it can do 160 calls a second. 50 a second are made at random times, with " +
			"200 ms for each attempt and up to four attempts, at once one after the other. From 10 s on the workers need 100 ms, for " +
			"650 ms, as in a published case, or for 2 s; 20 runs of each. 650 ms are on the edge: whether the naive client falls over depends on " +
			"when the calls come. Four times 50 are more than 160, so once it has fallen it does not get up again.",
		Defence: "budget; the server drops calls whose caller has given up", Against: "four attempts, a server that does all",
		Faults: []string{"no budget, patient server"},
		Figures: []Figure{
			{What: "calls that succeed from 5 s after 650 ms, worst run", Limit: 0.99, AtLeast: true, Percent: true},
			{What: "calls that succeed from 5 s after 2 s, worst run", Limit: 0.99, AtLeast: true, Percent: true},
			{What: "runs of 40 that have not recovered after 28 s", Limit: 0},
		},
		X: "seconds", Y: "calls that succeed, %",
		play: playMetastable,
	}
}

const (
	trigger  = 10 * time.Second // when it begins
	patterns = 20               // of arrivals
)

func playMetastable(s setting) measured {
	m := measured{values: []float64{1, 1, 0}}
	const end = 40
	var good [end]float64
	for i := range patterns {
		for k, lasts := range []time.Duration{650 * time.Millisecond, 2 * time.Second} {
			c := triggered(s, uint64(i), lasts, end*time.Second)
			m.worlds = append(m.worlds, c.world)
			m.values[k] = min(m.values[k], c.good(trigger+lasts+5*time.Second, end*time.Second))
			if c.good((end-5)*time.Second, end*time.Second) < 0.99 {
				m.values[2]++
			}
			if k == 1 {
				for sec := range end {
					good[sec] += c.good(time.Duration(sec)*time.Second, time.Duration(sec+1)*time.Second) / patterns
				}
			}
		}
	}
	m.line = seconds(end, func(sec int) float64 { return 100 * good[sec] })
	return m
}

// triggered plays one pattern of arrivals, with a slowness of that length.
func triggered(s setting, pattern uint64, lasts, end time.Duration) *cluster {
	c := newCluster(newWorld(s.seed + pattern<<32))
	c.addServers(1, 4, 25*time.Millisecond)
	bare := s.naive || s.fault != ""
	server := c.servers[0]
	server.room, server.patient = 10_000, bare
	needs := 25 * time.Millisecond
	server.takes = func() time.Duration { return needs }
	c.addClients(1, settings{
		policy: balance.P2C(), timeout: time.Second, each: 200 * time.Millisecond, retries: 3, budgeted: !bare, ejection: !bare,
	})
	c.after(trigger, func() { needs = 100 * time.Millisecond })
	c.after(trigger+lasts, func() { needs = 25 * time.Millisecond })
	c.load(steady(50), end)
	c.finish(end + 2*time.Second)
	return c
}
