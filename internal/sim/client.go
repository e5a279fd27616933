package sim

import (
	"slices"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/resilience"
)

// settings are how clients make calls.
type settings struct {
	policy     balance.Policy
	zone       string        // where the clients are
	retries    int           // attempts after the first
	budgeted   bool          // retries are paid from a budget, package client's default
	chain      bool          // DoNotRetry is honoured, and a call that serves a retry is not retried
	elsewhere  bool          // a retry goes to another instance
	ejection   bool          // instances that fail or are slow are left out
	timeout    time.Duration // of a call
	each       time.Duration // of an attempt; 0 means the call's
	unmeasured bool          // the planted fault: latencies are not measured
}

// client is one process that makes calls: its instances, and what it knows of them.
type client struct {
	net *cluster
	settings
	table   *balance.Table
	budget  *resilience.Budget // nil: retries cost nothing
	members map[string]*member
	health  health
	well    func(*balance.Node) bool // usable, made once
}

// call is one call of a client.
type call struct {
	client   *client
	number   int
	begun    time.Duration
	deadline time.Duration
	tries    int
	retried  bool // it serves a call that is itself a retry
	request  tandem.Call
	done     func(error)
	over     bool
}

// attempt is one try of a call at one server.
type attempt struct {
	call   *call
	node   *balance.Node
	server *server
	sent   time.Duration
	number int // of the call's attempts
	over   bool
}

// start makes a call; done gets its result.
func (c *client) start(key string, done func(error)) *call {
	c.net.begun++
	k := &call{client: c, number: c.net.begun, begun: c.net.now, deadline: c.net.now + c.timeout, done: done}
	k.request.HashKey = key
	return k
}

// try makes an attempt.
func (k *call) try() {
	c := k.client
	n := c.pick(k)
	if n == nil {
		k.end(errNoInstance)
		return
	}
	a := &attempt{call: k, node: n, server: c.net.servers[c.net.index[n.Instance.ID]], sent: c.net.now, number: k.tries}
	k.tries++
	c.net.attempts++
	if n.Instance.Zone != c.zone {
		c.net.crossed++
	}
	n.Stats.Begin()
	a.server.track(a)
	c.net.note(noteSent, uint64(k.number), uint64(a.server.number)) //nolint:gosec // small
	until := k.deadline
	if c.each > 0 {
		until = min(until, c.net.now+c.each)
	}
	c.net.after(until-c.net.now, func() { a.end(errDeadline) })
	c.net.after(c.net.delay(), func() { a.server.receive(a) })
}

// pick picks as the client's pool does, and asks the breaker of the picked instance.
func (c *client) pick(k *call) *balance.Node {
	n := c.choose(k)
	if n == nil || c.admit(n) {
		return n
	}
	for range 3 {
		other := c.table.Pick(&k.request, func(o *balance.Node) bool {
			return o != n && c.usable(o) && !slices.Contains(k.request.Exclude, o.Instance.ID)
		})
		if other == nil {
			break
		}
		if n = other; c.admit(n) {
			break
		}
	}
	return n
}

// choose returns an instance that the policy picks: one that is usable and was not tried, else
// one that is connected and was not tried, else any connected one.
func (c *client) choose(k *call) *balance.Node {
	if len(k.request.Exclude) == 0 {
		if n := c.table.Pick(&k.request, c.well); n != nil {
			return n
		}
	}
	untried := func(n *balance.Node) bool { return !slices.Contains(k.request.Exclude, n.Instance.ID) }
	for _, good := range []func(*balance.Node) bool{
		func(n *balance.Node) bool { return untried(n) && c.usable(n) },
		func(n *balance.Node) bool { return untried(n) && c.connected(n) },
		c.connected,
	} {
		if n := c.table.Pick(&k.request, good); n != nil {
			return n
		}
	}
	return nil
}

// end ends an attempt, once, with the first of: the response, the loss of the connection, or
// the deadline.
func (a *attempt) end(err error) {
	if a.over {
		return
	}
	a.over = true
	k, c := a.call, a.call.client
	switch {
	case tandem.CodeOf(err) == tandem.ResourceExhausted:
		a.node.Stats.RefusedAt(c.net.now)
	case c.unmeasured:
		a.node.Stats.DoneAt(0, c.net.now, faulty(err))
	default:
		a.node.Stats.DoneAt(a.sent, c.net.now, faulty(err))
	}
	c.tell(a, faulty(err))
	if o, ok := c.policy.(observer); ok {
		o.observe(a.node, c.net.now-a.sent)
	}
	switch {
	case err == nil:
		if c.budget != nil {
			c.budget.Call() // calls that succeed add to the budget
		}
		k.end(nil)
		return
	case c.retries == 0, !k.mayTry(err):
		k.end(err)
		return
	case !k.pay():
		k.end(tandem.AsError(err).WithRetryAfter(tandem.DoNotRetry))
		return
	}
	c.net.retried++
	if c.elsewhere {
		k.request.Exclude = append(k.request.Exclude, a.node.Instance.ID)
	}
	k.try()
}

// mayTry reports whether another attempt may help and this client may make it, as in package
// client: not if a layer below has given up retrying, nor if the call serves one that is itself
// a retry.
func (k *call) mayTry(err error) bool {
	c := k.client
	return c.net.now < k.deadline && c.mayHelp(err) && (!c.chain || !k.retried && tandem.AsError(err).RetryAfter != tandem.DoNotRetry)
}

// pay reports whether another attempt is left, and takes it from the budget.
func (k *call) pay() bool {
	c := k.client
	return k.tries <= c.retries && (c.budget == nil || c.budget.Take(c.net.time()))
}

// mayHelp reports whether another attempt can help after an error: calls are idempotent here.
// Attempts that were too slow are tried again by clients that bound them.
func (c *client) mayHelp(err error) bool {
	switch tandem.CodeOf(err) {
	case tandem.Unavailable, tandem.ResourceExhausted:
		return true
	case tandem.DeadlineExceeded:
		return c.each > 0
	}
	return false
}

func (k *call) end(err error) {
	n := k.client.net
	if k.over {
		n.breaksf("call %d ended twice", k.number)
		return
	}
	k.over = true
	n.ended++
	n.note(noteEnded, uint64(k.number), uint64(tandem.CodeOf(err))) //nolint:gosec // small
	k.done(err)
}
