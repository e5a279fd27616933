package http2calls

import (
	"fmt"
	"time"
)

// health looks whether the server of a connection with open calls is there.
type health struct {
	heard time.Time   // when bytes came last
	asked time.Time   // when a PING was sent that has not been answered; zero for none
	pings int         // that were sent since a call has got something
	clock *time.Timer // of tick; nil until the first call
	armed bool        // clock runs
}

// silences are how long a server with open calls may be silent before it gets a PING: the first, the
// second, and so on while no call gets anything. Servers end connections for PINGs that come too
// often: grpc-go's for the third that comes less than five minutes after the one before.
var silences = [...]time.Duration{15 * time.Second, time.Minute, 4 * time.Minute, 310 * time.Second} //nolint:gochecknoglobals // a table

func (h *health) silence() time.Duration { return silences[min(h.pings, len(silences)-1)] }

func (h *health) heardLocked(now time.Time) { h.heard, h.asked = now, time.Time{} }

// watchLocked begins to look, because there is a call.
func (c *Conn) watchLocked() {
	h := &c.health
	if h.armed {
		return
	}
	h.armed = true
	if h.clock == nil {
		h.clock = time.AfterFunc(silences[0], c.tick)
		return
	}
	h.clock.Reset(silences[0])
}

func (h *health) stopLocked() {
	if h.clock != nil {
		h.clock.Stop()
	}
}

// tick looks, and is called again for as long as there are calls, or the connection may be ended when
// it is idle.
func (c *Conn) tick() {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	next, failed := c.lookLocked(time.Now())
	if failed == nil {
		if c.health.armed = next > 0; c.health.armed {
			c.health.clock.Reset(next)
		}
	}
	lead := c.leadLocked()
	c.mu.Unlock()
	if lead {
		c.write(false)
	}
	if failed != nil {
		c.fail(failed)
	}
}

// idleTime is how long a connection without calls is kept, if it is not the only one.
const idleTime = time.Minute

var errIdle = fmt.Errorf("no call for %v", idleTime)

// lookLocked returns when to look again, 0 for not before the next call, or why the connection ends.
func (c *Conn) lookLocked(now time.Time) (next time.Duration, failed error) {
	h := &c.health
	silent := now.Sub(h.heard)
	switch {
	case c.m.Streams() == 0 && c.m.Closed():
		return 0, errAway
	case c.m.Streams() == 0 && !c.extra:
		return 0, nil
	case c.m.Streams() == 0:
		idle := now.Sub(c.used)
		if idle >= idleTime && len(c.waiting) == 0 && c.granted == 0 {
			return 0, errIdle
		}
		return max(idleTime-idle, time.Second), nil
	case !h.asked.IsZero() && now.Sub(h.asked) >= c.cfg.Stall:
		return 0, fmt.Errorf("the server has not answered a PING for %v", c.cfg.Stall)
	case !h.asked.IsZero():
		return c.cfg.Stall - now.Sub(h.asked), nil
	case silent < h.silence():
		return h.silence() - silent, nil
	}
	h.asked = now
	h.pings++
	c.m.Ping([8]byte{'t', 'a', 'n', 'd', 'e', 'm'})
	return c.cfg.Stall, nil
}
