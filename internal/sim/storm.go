package sim

import (
	"time"

	"github.com/tandem-rpc/tandem/balance"
)

// retryStorm: every server fails for a minute (reliability F15).
func retryStorm() *Scenario {
	return &Scenario{
		Name:  "retry-storm",
		Title: "All servers fail for 60 s: attempts for each call",
		Story: "10 clients make 2,500 calls a second to 10 servers, and may try each up to four times. From 10 s to 70 s " +
			"every server answers every call with an error.",
		Defence: "budget: 10 % of what succeeds and 10/s a client", Against: "three retries, no budget",
		Faults: []string{"no budget"},
		Figures: []Figure{
			{What: "attempts for each call that meets the failure", Limit: 1.10},
			{What: "calls that succeed from 1 s after it", Limit: 1, AtLeast: true, Percent: true},
		},
		X: "seconds", Y: "attempts / calls",
		play: playRetryStorm,
	}
}

func playRetryStorm(s setting) measured {
	c := newCluster(newWorld(s.seed))
	c.addServers(10, 100, 2*time.Millisecond)
	set := settings{
		policy: balance.P2C(), timeout: time.Second, retries: 3, elsewhere: true,
		budgeted: !s.naive && s.fault != "no budget", ejection: !s.naive,
	}
	c.addClients(10, set)
	const from, to, end = 10, 70, 80
	var calls, tries [end + 1]int
	for sec := range end + 1 {
		c.after(time.Duration(sec)*time.Second, func() { calls[sec], tries[sec] = c.begun, c.attempts })
	}
	c.after(from*time.Second, func() { c.fail(errFails) })
	c.after(to*time.Second, func() { c.fail(nil) })
	c.load(steady(250), end*time.Second)
	c.finish((end + 5) * time.Second)
	return measured{
		values: []float64{
			float64(tries[to]-tries[from]) / float64(calls[to]-calls[from]),
			c.good((to+1)*time.Second, end*time.Second),
		},
		line: seconds(end, func(sec int) float64 {
			return float64(tries[sec+1]-tries[sec]) / float64(calls[sec+1]-calls[sec])
		}),
		worlds: []*world{c.world},
	}
}

// fail makes every server answer every call with err; nil makes them serve again.
func (c *cluster) fail(err error) {
	for _, s := range c.servers {
		s.fails = err
	}
}
