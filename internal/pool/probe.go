package pool

import (
	"math/rand/v2"
	"sync"
	"time"
)

// Times of health checks.
const (
	LeastPingTimeout = 1400 * time.Millisecond
	mostPings        = 16                     // pings without an answer; more would look like a flood to a server that resumes
	tripsAPing       = 4                      // round trips that a ping may take, if that is longer than LeastPingTimeout
	silencesToRetire = 3                      // multiple of Silence after which a connection with calls outstanding is replaced
	roundsAnInterval = 16                     // most rounds in an interval: connections are checked together
	lateRound        = 500 * time.Millisecond // a round this late means that this process was suspended
)

// prober makes a client's health checks: it pings servers on connections on which nothing has
// come for a while, and makes suspects of those that do not answer. One timer serves all
// connections of the client; it fires when one of them is due.
type prober struct {
	pool     *Pool
	interval time.Duration
	changed  bool // the number of suspects changed in this round

	mu    sync.Mutex  // held for a round
	ended bool        // no further round runs
	timer *time.Timer // nil without health checks
	due   time.Time   // when the timer fires
}

// probe is what the prober knows of a link.
type probe struct {
	conn       *Conn         // the connection that the other fields are about
	patience   time.Duration // silence before the first ping
	unanswered int           // pings in a row without an answer
	first      time.Time     // when the first of them was sent
	asked      time.Time     // when the last of them was sent
	verdict    time.Time     // when the last ping counts as unanswered
}

// begin starts the rounds, which run until the client is closed.
func (p *prober) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.due = time.Now().Add(p.interval / 2)
	p.timer = time.AfterFunc(p.interval/2, func() { p.pool.cfg.Life.Run(p.next) })
}

// end stops the rounds, and waits for one that runs.
func (p *prober) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	if p.timer != nil {
		p.timer.Stop()
	}
}

// next runs a round, and sets the timer for the one after it.
func (p *prober) next() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	now := time.Now()
	p.due = p.round(now, now.Sub(p.due) > lateRound)
	p.timer.Reset(time.Until(p.due))
}

// round checks all connections and returns when the next round is due. A connection that is
// made meanwhile needs no check for half of an interval.
func (p *prober) round(now time.Time, late bool) (due time.Time) {
	due = now.Add(p.interval / 2)
	v := p.pool.view.Load()
	if v == nil {
		return due
	}
	p.changed = false
	for m := range v.all() {
		for i := range m.links {
			l := &m.links[i]
			if s := l.live.Load(); s != nil {
				if at := p.look(l, s, now, late); at.Before(due) {
					due = at
				}
			}
		}
	}
	if p.changed {
		p.pool.health.count()
	}
	if soonest := now.Add(p.interval / roundsAnInterval); due.Before(soonest) {
		return soonest
	}
	return due
}

// look pings one connection if that is due, or makes it a suspect if a ping was not answered.
// It returns when to look again. In a late round missing answers do not count, as this process
// may have been suspended.
func (p *prober) look(l *link, s *Conn, now time.Time, late bool) time.Time {
	pr, heard := &l.probe, s.Heard()
	if answers := pr.unanswered > 0 && !heard.Before(pr.first); pr.conn != s || answers {
		*pr = probe{conn: s, patience: p.interval/2 + rand.N(p.interval/2)}
		if answers || l.silent.Load() != s { // else its session has made it a suspect
			p.trust(l)
		}
	}
	timeout := pingTimeout(s)
	switch due := heard.Add(pr.patience); {
	case pr.unanswered == 0 && now.Before(due):
		return due
	case pr.unanswered == 0:
	case now.Before(pr.verdict):
		return pr.verdict
	case late:
		pr.first, pr.verdict = now, now.Add(timeout)
		return pr.verdict
	case now.Sub(pr.first) >= p.toRetire(s):
		s.Retire() // calls still in flight are left to the session's own checks
		return now.Add(p.interval)
	case pr.unanswered == 1:
		p.suspect(l, s, timeout)
	}
	pr.unanswered++
	pr.asked = time.Now()
	if pr.unanswered == 1 {
		pr.first = pr.asked
	}
	pr.verdict = pr.asked.Add(timeout)
	if pr.unanswered <= mostPings {
		s.Ping()
	}
	return pr.verdict
}

// toRetire returns how long a connection may be silent before it is replaced. One with calls
// outstanding gets longer: the server may still answer them, and may not answer on another
// connection.
func (p *prober) toRetire(s *Conn) time.Duration {
	if s.Own != nil {
		if ours, _ := s.Own.Outstanding(); ours > 0 {
			return silencesToRetire * p.pool.cfg.Silence
		}
	}
	return p.pool.cfg.Silence
}

// pingTimeout returns how long a ping may be unanswered before its connection is suspect.
func pingTimeout(s *Conn) time.Duration {
	if s.Own == nil {
		return LeastPingTimeout
	}
	return max(LeastPingTimeout, tripsAPing*s.Own.RTT())
}

// suspect notes that the server of a link does not answer. The instance is a suspect if that is
// so of all its links.
func (p *prober) suspect(l *link, s *Conn, timeout time.Duration) {
	l.silent.Store(s)
	p.changed = true
	p.pool.cfg.Log.Warn("connection is silent: no answer to a ping", "instance", l.id, "endpoint", l.ep, "within", timeout)
}

// trust notes that the server of a link answers.
func (p *prober) trust(l *link) {
	if l.silent.Swap(nil) != nil {
		p.changed = true
		p.pool.cfg.Log.Warn("connection answers again", "instance", l.id, "endpoint", l.ep)
	}
}
