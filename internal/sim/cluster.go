package sim

import (
	"strconv"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/resilience"
)

// cluster is one service: servers, clients that call them, and the results of the calls.
type cluster struct {
	*world
	servers  []*server
	inside   *balance.World
	index    map[string]int // of servers, by instance ID
	clients  []*client
	samples  []sample
	begun    int // calls
	ended    int
	attempts int
	crossed  int // attempts that went to another zone
	retried  int
}

// sample is a call that has ended.
type sample struct {
	begun time.Duration // since the world began
	took  time.Duration
	ok    bool
}

func newCluster(w *world) *cluster {
	return &cluster{world: w, inside: w.balance(), index: map[string]int{}}
}

// delay draws how long the network takes in one direction.
func (c *cluster) delay() time.Duration { return c.about(200 * time.Microsecond) }

// addServers adds n servers with that many workers, each of which needs about takes for a call.
func (c *cluster) addServers(n, workers int, takes time.Duration) {
	for range n {
		i := len(c.servers)
		id := "s" + strconv.Itoa(i)
		c.index[id] = i
		c.servers = append(c.servers, &server{
			world: c.world, number: i, workers: workers, room: 1000,
			takes:    func() time.Duration { return c.about(takes) },
			instance: tandem.Instance{ID: id, Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: id}}},
		})
	}
}

// list returns the instances that the registry lists.
func (c *cluster) list() []tandem.Instance {
	list := make([]tandem.Instance, len(c.servers))
	for i, s := range c.servers {
		list[i] = s.instance
	}
	return list
}

// The retry budget of a client, as in package client by default.
const (
	budgetShare = 0.1
	budgetRate  = 10
)

// addClients adds n clients of all servers.
func (c *cluster) addClients(n int, s settings) {
	list := c.list()
	for range n {
		k := &client{net: c, settings: s, table: balance.NewTableIn(c.inside, s.policy), members: map[string]*member{}}
		k.well = k.usable
		if s.ejection {
			k.health.outliers = resilience.NewOutliers(resilience.OutlierConfig{})
		}
		if s.budgeted {
			k.budget = resilience.NewBudget(budgetShare, budgetRate, c.time())
		}
		k.table.Update(list)
		c.clients = append(c.clients, k)
	}
}

// record makes a call and records its result.
func (c *client) record(key string) {
	at := c.net.now
	c.start(key, func(err error) {
		c.net.samples = append(c.net.samples, sample{at - began, c.net.now - at, err == nil})
	}).try()
}

// load makes every client make calls at random times, on average rate() a second, until the
// world is that old.
func (c *cluster) load(rate func() float64, until time.Duration) {
	for _, k := range c.clients {
		var next func()
		next = func() {
			if c.since() >= until {
				return
			}
			k.record("")
			c.after(c.gap(rate()), next)
		}
		c.after(c.gap(rate()), next)
	}
}

// steady is a rate that does not change.
func steady(perSecond float64) func() float64 { return func() float64 { return perSecond } }

// finish waits for the last calls and checks the invariants.
func (c *cluster) finish(at time.Duration) {
	c.run(at)
	if c.begun != c.ended {
		c.breaksf("%d calls began, %d ended", c.begun, c.ended)
	}
	for i, k := range c.clients {
		for _, n := range k.table.Nodes() {
			if calls := n.Stats.InFlight(); calls != 0 {
				c.breaksf("client %d counts %d calls in flight at %s, and there are none", i, calls, n.Instance.ID)
			}
		}
	}
	c.checkBudgets()
}

// checkBudgets checks that there were no more retries than calls and time have paid for, and
// ten seconds' worth of savings.
func (c *cluster) checkBudgets() {
	if len(c.clients) == 0 || c.clients[0].budget == nil {
		return
	}
	n := float64(len(c.clients))
	if most := budgetShare*float64(c.ended) + n*budgetRate*(c.since().Seconds()+10); float64(c.retried) > most {
		c.breaksf("%d retries, the budgets are for %.0f", c.retried, most)
	}
}

// renew gives a client a new table, as if its statistics were lost with each list.
func (c *client) renew() {
	c.table = balance.NewTableIn(c.net.inside, c.policy)
	c.table.Update(c.net.list())
}

// disconnect closes the connections of all clients to those servers at the same instant, which
// fails the calls on them.
func (c *cluster) disconnect(servers ...*server) {
	for _, s := range servers {
		for _, k := range c.clients {
			k.member(s.instance.ID).lost = true
		}
	}
	for _, s := range servers {
		s.lose()
	}
}
