package sim

import (
	"slices"
	"time"

	"github.com/tandem-rpc/tandem/balance"
)

// silence is how long a client waits for data before it closes a connection: 1 s, and 1.4 s
// after a ping (internal/session).
const silence = 2400 * time.Millisecond

// zoneLoss: all servers of one of three zones fall silent.
func zoneLoss() *Scenario {
	return &Scenario{
		Name:  "zone-loss",
		Title: "One of three zones falls silent: calls that succeed",
		Story: "210 clients make 4,200 calls a second to 30 servers; a third of both is in each of three zones. At 10 s the ten servers " +
			"of one zone fall silent, connections stay open. Clients find that out by a ping after 2.4 s and try what was lost elsewhere. " +
			"Under P2C the calls go everywhere. Under Zone they stay in their zone, and that has a price: clients of the lost one have no " +
			"server that answers until the pings tell, and what they try again goes to others that are lost.",
		Defence: "P2C, and Zone before it; pings, ejection, failover", Against: "round robin, no pings",
		Faults: []string{"no zones", "no pings", "no failover"},
		Figures: []Figure{
			{What: "P2C: until the last call that fails begins, after the loss", Limit: 3, Unit: "s"},
			{What: "P2C: calls that fail, of all after the loss", Limit: 0.001, Percent: true},
			{What: "P2C: most loaded of the living servers over their mean", Limit: 1.3},
			{What: "Zone: calls that stay in their zone before the loss", Limit: 0.99, AtLeast: true, Percent: true},
			{What: "Zone: until the last call that fails begins, after the loss", Limit: 3, Unit: "s"},
			{What: "Zone: calls that fail, of all after the loss", Limit: 0.02, Percent: true},
			{What: "Zone: most loaded of the living servers over their mean", Limit: 1.3},
		},
		X: "seconds", Y: "calls that succeed, %",
		play: playZoneLoss,
	}
}

func playZoneLoss(s setting) measured {
	everywhere := func(string) balance.Policy { return balance.P2C() }
	if s.naive {
		c, stayed := loseZone(s, func(string) balance.Policy { return balance.RoundRobin() })
		lost := zoneLosses(c)
		return measured{values: slices.Concat(lost, []float64{stayed}, lost), line: goodEachSecond(c), worlds: []*world{c.world}}
	}
	local := func(zone string) balance.Policy { return balance.Zone(zone, balance.P2C()) }
	if s.fault == "no zones" {
		local = everywhere
	}
	spread, _ := loseZone(s, everywhere)
	near, stayed := loseZone(s, local)
	return measured{
		values: slices.Concat(zoneLosses(spread), []float64{stayed}, zoneLosses(near)),
		line:   goodEachSecond(spread),
		more:   []Series{{Name: "tandem, Zone", Style: 2, Points: goodEachSecond(near)}},
		worlds: []*world{spread.world, near.world},
	}
}

// When the zone is lost, and when the calls end, in seconds.
const (
	zoneLost = 10
	zoneEnd  = 40
)

// loseZone plays the loss, and returns which part of the calls stayed in their zone before it.
func loseZone(s setting, policy func(zone string) balance.Policy) (c *cluster, stayed float64) {
	c = newCluster(newWorld(s.seed))
	c.addServers(30, 8, 5*time.Millisecond)
	set := settings{timeout: 5 * time.Second, retries: 2, elsewhere: true, budgeted: true, ejection: true}
	pings := !s.naive && s.fault != "no pings"
	switch {
	case s.naive:
		set = settings{timeout: 5 * time.Second}
	case s.fault == "no failover":
		set.retries = 0
	}
	c.addZones(70, set, policy)
	c.after(zoneLost*time.Second, func() {
		stayed = 1 - float64(c.crossed)/float64(c.attempts)
		for _, dead := range c.servers[:10] {
			dead.stop()
			if pings {
				c.after(silence, func() { c.disconnect(dead) })
			}
		}
	})
	c.load(steady(20), zoneEnd*time.Second)
	c.finish((zoneEnd + 10) * time.Second)
	return c, stayed
}

// addZones puts a third of the servers into each of three zones, and adds n clients to each
// with the policy for the zone.
func (c *cluster) addZones(n int, set settings, policy func(zone string) balance.Policy) {
	zones := []string{"a", "b", "c"}
	for i, s := range c.servers {
		s.instance.Zone = zones[i*len(zones)/len(c.servers)]
	}
	for _, zone := range zones {
		set.zone, set.policy = zone, policy(zone)
		c.addClients(n, set)
	}
}

// zoneLosses returns for how long calls failed, which part of them failed, and how even the
// load of the living servers was.
func zoneLosses(c *cluster) []float64 {
	return []float64{
		c.lastFailure(zoneLost * time.Second).Seconds(),
		1 - c.good(zoneLost*time.Second, zoneEnd*time.Second),
		unevenness(c.servers[10:], zoneLost+5, zoneEnd),
	}
}

// goodEachSecond plots which part of the calls succeeds, in percent.
func goodEachSecond(c *cluster) []Point {
	return seconds(zoneEnd, func(sec int) float64 {
		return 100 * c.good(time.Duration(sec)*time.Second, time.Duration(sec+1)*time.Second)
	})
}
