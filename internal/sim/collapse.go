package sim

import (
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/adapter"
)

// listCollapse: the registry loses eight of ten instances, of which four have really ended
// (reliability F09).
func listCollapse() *Scenario {
	return &Scenario{
		Name:  "list-collapse",
		Title: "The registry loses 8 of 10 servers, 4 of which are dead: servers in use",
		Story: "50 clients make 1,000 calls a second to 10 servers with two workers that need 10 ms, 50 % of what they can do. At 10 s " +
			"four of them die, and the registry forgets these and four that live. Two servers alone could not do the work. " +
			"At 60 s the list has the living again.",
		Defence: "the keeper of the last good list", Against: "the registry is always right",
		Faults: []string{"believe everything", "ask nobody"},
		Figures: []Figure{
			{What: "calls that fail", Limit: 0, Percent: true},
			{What: "living servers dropped", Limit: 0},
			{What: "until the dead are dropped", Limit: 30, Unit: "s"},
		},
		X: "seconds", Y: "servers in use",
		play: playListCollapse,
	}
}

// keeping is a client's view of the registry.
type keeping struct {
	*client
	keeper  *adapter.Keeper
	naive   bool
	members map[string]bool // of the last view
}

func playListCollapse(s setting) measured {
	c := newCluster(newWorld(s.seed))
	c.addServers(10, 2, 10*time.Millisecond)
	c.addClients(50, settings{policy: balance.P2C(), timeout: time.Second, retries: 2, elsewhere: true, budgeted: true, ejection: true})
	var all []*keeping
	for _, k := range c.clients {
		kept := &keeping{client: k, keeper: &adapter.Keeper{}, naive: s.naive || s.fault == "believe everything"}
		if s.fault != "ask nobody" {
			kept.keeper.Alive = func(id string) bool { return !k.member(id).lost }
		}
		kept.listed(c.list())
		all = append(all, kept)
	}
	const from, back, end = 10, 60, 80
	c.after(from*time.Second, func() {
		for _, dead := range c.servers[:4] { // their connections are reset
			dead.stop()
		}
		c.disconnect(c.servers[:4]...)
		for _, k := range all {
			k.listed(c.list()[8:])
		}
	})
	c.after(back*time.Second, func() {
		for _, k := range all {
			k.listed(c.list()[4:])
		}
	})
	watch := &watching{dropped: map[string]bool{}}
	c.every(time.Second, func() { watch.look(all, c.since()) })
	c.load(steady(20), end*time.Second)
	c.finish((end + 5) * time.Second)
	dead := watch.deadGone - from*time.Second
	if watch.deadGone == 0 {
		dead = end * time.Second
	}
	return measured{
		values: []float64{1 - c.good(0, end*time.Second), float64(len(watch.dropped)), dead.Seconds()},
		line:   watch.line,
		worlds: []*world{c.world},
	}
}

// listed applies a list of the registry.
func (k *keeping) listed(list []tandem.Instance) {
	if k.naive {
		k.use(adapter.View{Instances: list})
		return
	}
	view, _ := k.keeper.Apply(registry.Snapshot{Instances: list}, k.net.time())
	k.use(view)
	k.judge()
}

// judge lets the keeper check its suspects when that is due.
func (k *keeping) judge() {
	next := k.keeper.Next()
	if next.IsZero() {
		return
	}
	k.net.after(next.Sub(k.net.time()), func() {
		if view, changed := k.keeper.Expire(k.net.time()); changed {
			k.use(view)
		}
		k.judge()
	})
}

func (k *keeping) use(v adapter.View) {
	k.members = make(map[string]bool, len(v.Instances))
	for i := range v.Instances {
		k.members[v.Instances[i].ID] = true
	}
	k.net.note(noteListed, uint64(len(v.Instances)), uint64(len(v.Suspect)))
	k.table.Update(v.Instances)
}

// watching records which servers the clients use.
type watching struct {
	line     []Point
	dropped  map[string]bool // living servers that a client did not use
	deadGone time.Duration   // when no client used a dead server any more
}

func (w *watching) look(all []*keeping, now time.Duration) {
	used, dead := 0, false
	for _, k := range all {
		used += len(k.members)
		for i, s := range k.net.servers {
			switch in := k.members[s.instance.ID]; {
			case i < 4:
				dead = dead || in
			case !in:
				w.dropped[s.instance.ID] = true
			}
		}
	}
	w.line = append(w.line, dot(now.Seconds(), float64(used)/float64(len(all))))
	if !dead && w.deadGone == 0 {
		w.deadGone = now
	}
}
