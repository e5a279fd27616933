package http2calls

import (
	"context"
	"time"

	"github.com/tandem-rpc/tandem/internal/http2"
)

// expiry ends the calls of a connection whose deadlines have passed. One timer serves all calls: it is
// set for the earliest, and looks at all calls when it fires, so that most calls cost nothing.
type expiry struct {
	at    time.Time // when clock fires; zero if it does not run
	clock *time.Timer
}

// expireLocked has the calls looked at when a deadline passes; the zero time is none.
func (c *Conn) expireLocked(at time.Time) {
	e := &c.expiry
	if at.IsZero() || !e.at.IsZero() && !at.Before(e.at) {
		return
	}
	e.at = at
	if e.clock == nil {
		e.clock = time.AfterFunc(time.Until(at), c.expire)
		return
	}
	e.clock.Reset(time.Until(at))
}

func (e *expiry) stopLocked() {
	if e.clock != nil {
		e.clock.Stop()
	}
}

// expire ends the calls whose deadlines have passed.
func (c *Conn) expire() {
	c.mu.Lock()
	if c.err != nil { // its calls have been told
		c.mu.Unlock()
		return
	}
	now := time.Now()
	var next time.Time
	var late []*Exchange
	c.m.Each(func(st *http2.Stream) {
		x, ok := st.Owner.(*Exchange)
		switch {
		case !ok || x.expires.IsZero():
		case !now.Before(x.expires):
			late = append(late, x)
		case next.IsZero() || x.expires.Before(next):
			next = x.expires
		}
	})
	for _, x := range late {
		x.err = x.givenUpLocked(c, context.DeadlineExceeded)
		if c.direct.caller == x {
			c.relieveLocked()
		}
	}
	c.expiry.at = time.Time{}
	c.expireLocked(next)
	c.grantLocked()
	lead := c.leadLocked()
	c.mu.Unlock()
	for _, x := range late {
		x.done <- struct{}{}
	}
	if lead {
		c.write(false)
	}
}
