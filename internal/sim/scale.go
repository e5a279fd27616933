package sim

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/adapter"
)

// fleetSize is how large a fleet is, and which part of it is played.
type fleetSize struct {
	instances, clients, zones int
	sampled                   int // clients that make calls; the registry serves all of them
	counted                   int // clients whose connections are counted
	members                   int // of the registry, which share the clients
	local                     int // instances of a client's part of its zone
}

// Times of the scenarios of fleets.
const (
	churnEvery = 3 * time.Second // a twentieth of 10 % of the instances is replaced
	fleetRule  = 30 * time.Second
	fleetEnd   = 60 * time.Second
)

// subsetEven is the index of the figure of a Subset's evenness, for which all clients are counted.
const subsetEven = 3

// part is how many instances a client connects to before the rule.
const part = 20

// scale: a fleet of 1,000 instances.
func scale() *Scenario {
	s := fleetScenario(fleetSize{instances: 1000, clients: 1000, zones: 50, sampled: 10, counted: 1000, members: 1, local: 8})
	s.Name, s.Title = "scale", "1,000 instances, 1,000 clients, 50 zones: connections of a client"
	return s
}

// scaleLarge: a fleet of 10,000 instances. It takes minutes.
func scaleLarge() *Scenario {
	s := fleetScenario(fleetSize{instances: 10_000, clients: 10_000, zones: 50, sampled: 10, counted: 200, members: 3, local: part})
	s.Name, s.Title = "scale-large", "10,000 instances, 10,000 clients, 50 zones: connections of a client"
	s.Faults = append(s.Faults, "the pace of a short list")
	return s
}

func fleetScenario(size fleetSize) *Scenario {
	s := &Scenario{
		Story: "Every minute 10 % of the instances are drained and replaced, some every 3 s. Each client has a part of 20 instances: an Aperture, " +
			"or a Subset. At 30 s a new rule comes: stay in the zone, with a part of that. The registry sends every change to every client, at most 125 MB/s " +
			"from each of its members (one for 1,000 instances, three for 10,000), and clients read the whole list again as often as the real Follower " +
			"does. A sample of the clients is played, with the whole " +
			"list each; the registry serves all of them.",
		Defence: "Aperture or Subset; changes instead of lists; the pace of Follower", Against: "connections to all, and the whole list at each change",
		Faults: []string{"no parts", "whole lists", "numbers of the whole fleet", "no drain, no failover"},
		Figures: []Figure{
			{What: "Aperture: most connections of a client", Limit: part + 2},
			{What: "Aperture: most clients of an instance over their mean", Limit: 1.1},
			{What: "Aperture: connections that a client opens in a minute of churn", Limit: 150},
			{What: "Subset: most clients of an instance over their mean", Limit: 2.5},
			{What: "Subset: connections that a client opens in a minute of churn", Limit: 4},
			{What: "Aperture in 50 zones: most connections of a client", Limit: float64(size.local) + 50},
			{What: "Aperture in 50 zones: most clients of an instance in its zone over their mean", Limit: 1.1},
			{What: "calls that stay in their zone, from 5 s after the rule", Limit: 0.99, AtLeast: true, Percent: true},
			{What: "calls that fail", Limit: 0, Percent: true},
			{What: "until the last client has applied a new list, worst", Limit: 5, Unit: "s"},
			{What: "until the last client follows the new rule", Limit: 2, Unit: "s"},
			{What: "the registry's load, of what it can send", Limit: 0.8, Percent: true},
			{What: "instances that a pick looks at", Limit: 3},
		},
		X: "seconds", Y: "connections of a client", LogY: true,
		play: func(s setting) measured { return playFleet(s, size) },
	}
	if size.counted < size.clients {
		s.Figures = slices.Delete(s.Figures, subsetEven, subsetEven+1)
	}
	return s
}

func playFleet(s setting, size fleetSize) measured {
	whole := s.naive || s.fault == "no parts"
	first := newFleet(s, size, func(next balance.Policy, number, of, part int) balance.Policy {
		if whole {
			return next
		}
		return balance.Aperture(number, of, part, next)
	})
	first.evenLocal, first.mostLocal = first.census(first.local, true)
	first.play()
	if whole {
		return measured{values: first.values(first, s.naive), line: first.line, worlds: []*world{first.world}}
	}
	second := newFleet(s, size, func(next balance.Policy, number, of, part int) balance.Policy {
		return balance.Subset(part, strconv.Itoa(number)+" of "+strconv.Itoa(of), next)
	})
	second.play()
	return measured{
		values: first.values(second, false),
		line:   first.line,
		more:   []Series{{Name: "tandem, Subset", Style: 2, Points: second.line}},
		worlds: []*world{first.world, second.world},
	}
}

// fleet is a service with so many instances and clients that only a part of them is played.
type fleet struct {
	*cluster
	setting
	size    fleetSize
	part    func(next balance.Policy, number, of, part int) balance.Policy
	source  *directory
	living  []*server
	listed  []tandem.Instance
	version int             // of the list
	changed []time.Duration // when each version was made
	members []*fleetMember

	looked             int
	opened             int           // connections before the rule, without the first ones
	worstList          time.Duration // until a client had applied a list
	worstRule          time.Duration
	ruled              int // clients that follow the rule
	evenAll, evenLocal float64
	mostAll, mostLocal int
	sent, went         int // attempts, and those to other zones, until the rule has settled
	line               []Point
}

// fleetMember is a client that is played.
type fleetMember struct {
	*client
	fleet   *fleet
	number  int // of all clients
	keeper  adapter.Keeper
	policy  balance.Policy
	wanted  []string // instances that it connects to
	version int
	last    time.Duration // of the last delivery
	due     bool
}

func newFleet(s setting, size fleetSize, part func(next balance.Policy, number, of, part int) balance.Policy) *fleet {
	f := &fleet{cluster: newCluster(newWorld(s.seed)), setting: s, size: size, part: part}
	f.source = &directory{world: f.world, rate: memberRate * float64(size.members)}
	f.addServers(size.instances, 8, 5*time.Millisecond)
	for i, in := range f.servers {
		in.instance.Zone = zoneName(i % size.zones)
	}
	f.living = slices.Clone(f.servers)
	f.publish()
	set := settings{timeout: time.Second, retries: 2, elsewhere: true, budgeted: true}
	if s.fault == "no drain, no failover" {
		set.retries = 0
	}
	step := size.clients / size.sampled
	for i := range size.sampled {
		m := &fleetMember{fleet: f, number: i*step + i%step}
		set.zone, set.policy = zoneName(f.zoneOf(m.number)), f.everywhere(m.number)
		m.client = f.addFollower(set)
		m.policy = set.policy
		f.members = append(f.members, m)
		m.deliver()
	}
	f.opened = 0
	return f
}

// addFollower adds a client without instances, whose picks are counted.
func (f *fleet) addFollower(set settings) *client {
	before := f.servers
	f.servers = nil
	f.addClients(1, set)
	f.servers = before
	c := f.clients[len(f.clients)-1]
	c.well = func(n *balance.Node) bool { f.looked++; return c.usable(n) }
	return c
}

func zoneName(i int) string { return "z" + strconv.Itoa(i) }

// zoneOf returns the zone of a client. Under the fault, clients of neighbouring numbers are in
// the same zone.
func (f *fleet) zoneOf(number int) int {
	if f.fault == "numbers of the whole fleet" {
		return number * f.size.zones / f.size.clients
	}
	return number % f.size.zones
}

// everywhere is the first rule: calls go to all zones.
func (f *fleet) everywhere(number int) balance.Policy {
	return f.part(balance.P2C(), number, f.size.clients, part)
}

// local is the second rule: calls stay in the zone. A client has a number among those of its zone.
func (f *fleet) local(number int) balance.Policy {
	at, of := number/f.size.zones, f.size.clients/f.size.zones
	if f.fault == "numbers of the whole fleet" {
		at, of = number, f.size.clients
	}
	return balance.Zone(zoneName(f.zoneOf(number)), f.part(balance.P2C(), at, of, f.size.local))
}

// play plays a minute.
func (f *fleet) play() {
	f.evenAll, f.mostAll = f.census(f.everywhere, false)
	f.source.start(f)
	f.every(churnEvery, f.churn)
	f.every(2*time.Second, func() { f.line = append(f.line, dot(f.since().Seconds(), f.connections())) })
	f.after(fleetRule, f.rule)
	f.after(fleetRule+5*time.Second, func() { f.sent, f.went = f.attempts, f.crossed })
	f.load(steady(50), fleetEnd)
	f.finish(fleetEnd + 5*time.Second)
}

// connections returns how many connections a played client has, on average.
func (f *fleet) connections() float64 {
	n := 0
	for _, m := range f.members {
		n += len(m.wanted)
	}
	return float64(n) / float64(len(f.members))
}

// publish makes the living servers the registry's list.
func (f *fleet) publish() {
	f.listed = make([]tandem.Instance, len(f.living))
	for i, s := range f.living {
		f.listed[i] = s.instance
	}
	f.changed = append(f.changed, f.now)
	f.version = len(f.changed)
	f.note(noteListed, uint64(f.version), uint64(len(f.listed))) //nolint:gosec // small
}

// churn replaces some instances, the oldest first.
func (f *fleet) churn() {
	if f.since() > fleetEnd {
		return
	}
	n := int(float64(f.size.instances) * 0.1 * churnEvery.Minutes())
	old := f.living[:n]
	f.addServers(n, 8, 5*time.Millisecond)
	fresh := f.servers[len(f.servers)-n:]
	for i, s := range old {
		fresh[i].instance.Zone = s.instance.Zone
		if f.fault == "no drain, no failover" {
			s.stop()
			continue
		}
		for _, m := range f.members { // a server that drains tells its clients
			if slices.Contains(m.wanted, s.instance.ID) {
				m.member(s.instance.ID).lost = true
			}
		}
	}
	f.living = slices.Concat(f.living[n:], fresh)
	if f.fault == "no drain, no failover" { // they are listed until their time to live ends
		f.after(3*renewalEvery, func() { f.announce(n) })
		return
	}
	f.announce(n)
}

// announce makes the living servers the list, of which n are new, and tells the clients.
func (f *fleet) announce(n int) {
	f.publish()
	bytes := float64(n * (entryBytes + keyBytes))
	if f.naive || f.fault == "whole lists" {
		bytes = float64(len(f.listed) * entryBytes)
	}
	f.source.broadcast(f, bytes, (*fleetMember).hear)
}

// rule sends another policy to all clients.
func (f *fleet) rule() {
	f.source.broadcast(f, ruleBytes, func(m *fleetMember) {
		m.policy = f.local(m.number)
		m.client.policy = m.policy
		m.table.SetPolicy(m.policy)
		m.connect(f.listed)
		f.ruled++
		f.worstRule = max(f.worstRule, f.since()-fleetRule)
	})
}

// hear is told that the registry's list has changed: the list is applied at once, or when the
// pause after the last one is over.
func (m *fleetMember) hear() {
	if m.due {
		return
	}
	m.due = true
	settle, _ := m.fleet.pace()
	m.fleet.after(m.last+settle-m.fleet.now, m.deliver)
}

// deliver applies the registry's list.
func (m *fleetMember) deliver() {
	f := m.fleet
	m.due, m.last = false, f.now
	view, _ := m.keeper.Apply(registry.Snapshot{Instances: f.listed}, f.time())
	m.table.Update(view.Instances)
	m.connect(view.Instances)
	for ; m.version < f.version; m.version++ {
		f.worstList = max(f.worstList, f.now-f.changed[m.version])
	}
}

// connect connects to the instances that the policy wants, as package client's pool does.
func (m *fleetMember) connect(list []tandem.Instance) {
	f := m.fleet
	if narrow := m.policy.Needs().Narrow; narrow != nil {
		list = narrow(list)
	}
	old := make(map[string]bool, len(m.wanted))
	for _, id := range m.wanted {
		old[id] = true
	}
	before := m.wanted
	m.wanted = make([]string, 0, len(list))
	for i := range list {
		id := list[i].ID
		m.wanted = append(m.wanted, id)
		if old[id] {
			delete(old, id)
			continue
		}
		if f.since() < fleetRule {
			f.opened++
		}
		if len(before) > 0 {
			state := m.member(id)
			state.lost = true
			f.after(f.about(2*time.Millisecond), func() { state.lost = false })
		}
	}
	for _, id := range before {
		if old[id] {
			delete(m.client.members, id)
		}
	}
}

// values returns the figures; those of Subset are of another fleet.
func (f *fleet) values(subset *fleet, naive bool) []float64 {
	minute := func(f *fleet) float64 {
		return float64(f.opened) / float64(len(f.members)) / fleetRule.Minutes()
	}
	list, rule := f.worstList.Seconds(), f.worstRule.Seconds()
	for _, m := range f.members {
		if m.version < f.version {
			list = math.Inf(1)
		}
	}
	if f.ruled < len(f.members) {
		rule = math.Inf(1)
	}
	v := []float64{
		float64(f.mostAll), f.evenAll, minute(f), subset.evenAll, minute(subset), float64(f.mostLocal), f.evenLocal,
		1 - float64(f.crossed-f.went)/float64(f.attempts-f.sent), 1 - min(f.good(0, fleetEnd), subset.good(0, fleetEnd)),
		list, rule, f.source.sent / (f.since().Seconds() * f.source.rate), float64(f.looked) / float64(f.attempts),
	}
	if naive {
		v[subsetEven], v[subsetEven+1] = math.NaN(), math.NaN()
	}
	if f.size.counted < f.size.clients {
		v = slices.Delete(v, subsetEven, subsetEven+1)
	}
	return v
}

// census counts the connections of clients to instances: how many the clients of the most
// connected instance are over the mean, and how many connections a client has at most. It looks at
// clients that are neighbours, and at the instances that no other clients connect to; or, if
// inZone, at all clients of some zones and at their connections within these.
func (f *fleet) census(rule func(number int) balance.Policy, inZone bool) (uneven float64, most int) {
	clients := map[string]int{}
	zones := f.size.zones * f.size.counted / f.size.clients
	counted := 0
	for number := 0; counted < f.size.counted && number < f.size.clients; number++ {
		if inZone && f.zoneOf(number) >= zones {
			continue
		}
		counted++
		list := f.listed
		if narrow := rule(number).Needs().Narrow; narrow != nil {
			list = narrow(list)
		}
		most = max(most, len(list))
		zone := zoneName(f.zoneOf(number))
		for i := range list {
			if !inZone || list[i].Zone == zone {
				clients[list[i].ID]++
			}
		}
	}
	highest, sum, instances := 0, 0, 0
	for _, in := range f.counted(inZone, zones) {
		n := clients[in.ID]
		highest, sum, instances = max(highest, n), sum+n, instances+1
	}
	return float64(highest) / (float64(sum) / float64(instances)), most
}

// counted returns the instances whose clients census has counted.
func (f *fleet) counted(inZone bool, zones int) []tandem.Instance {
	if !inZone {
		sorted := slices.SortedFunc(slices.Values(f.listed), func(a, b tandem.Instance) int { return strings.Compare(a.ID, b.ID) })
		if f.size.counted == f.size.clients {
			return sorted
		}
		return sorted[part+1 : f.size.counted*f.size.instances/f.size.clients]
	}
	return slices.DeleteFunc(slices.Clone(f.listed), func(in tandem.Instance) bool {
		for z := range zones {
			if in.Zone == zoneName(z) {
				return false
			}
		}
		return true
	})
}
