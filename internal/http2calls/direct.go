package http2calls

import (
	"errors"
	"os"
	"time"
)

// A call that is alone on its connection would cost a hand-over between its caller and the goroutine
// that reads. Its caller reads instead: when calls come one at a time the goroutine parks the reader's
// role and ends, and the caller of the next call takes the role until its response has come. It handles
// all that it reads, so the calls that begin meanwhile wait as they would for a goroutine. The native
// session has the same (ADR 0014).
//
// A timer bounds this. A caller that can be cancelled and has read for longer than a tick is relieved:
// a goroutine reads on, and the call waits like any other. A caller whose deadline passes is relieved at
// once. If no call takes the parked role for a tick, a goroutine reads again, so that the end of the
// connection is noticed.

const (
	parkAfter  = 3                      // responses in a row, each alone, after which the role is parked
	staleAfter = time.Millisecond       // time since the last read after which the server may have left
	reliefTick = 10 * time.Millisecond  // while callers read that can be cancelled
	parkTick   = 250 * time.Millisecond // while the role is parked
)

// direct is the state of reading by callers.
type direct struct {
	able     bool      // the connection can be read without waiting; set once
	parked   bool      // no goroutine has the reader's role
	caller   *Exchange // the call whose caller has the role; nil for none
	got      bool      // caller's call is over
	relieved bool      // a read deadline in the past was set, so that the caller's read ends
	lone     int       // responses in a row that came alone

	clock *time.Timer // of look; nil until it is needed
	armed bool        // clock runs
	fast  bool        // it runs for reliefTick
	hasty bool        // since the last look a caller has taken the role that can be cancelled
	taken uint64      // times a caller has taken the role
	seen  uint64      // taken at the last look
}

// role says who has the reader's role after a read.
type role int

const (
	roleKept   role = iota // the goroutine that has read
	roleParked             // none, or a caller by now
	roleOver               // a caller that has its response: it is to start a goroutine that reads on
)

// nextReaderLocked says who reads next.
func (c *Conn) nextReaderLocked() role {
	d := &c.direct
	switch {
	case !d.able || d.caller != nil && !d.got:
		return roleKept
	case d.caller != nil:
		c.endDirectLocked()
		if len(c.woken) > 0 || !c.quietLocked() {
			return roleOver
		}
		c.parkLocked()
		return roleParked
	case len(c.woken) == 0 && c.m.Streams() <= 1: // a part of a response, or a PING
		return roleKept
	case len(c.woken) > 1 || !c.quietLocked():
		d.lone = 0
		return roleKept
	}
	if d.lone++; d.lone < parkAfter {
		return roleKept
	}
	c.parkLocked()
	return roleParked
}

// quietLocked reports whether nothing needs a reader.
func (c *Conn) quietLocked() bool {
	return c.m.Streams() == 0 && c.kept == 0 && len(c.waiting) == 0 && c.granted == 0 && c.errLocked() == nil
}

// parkLocked parks the role. What the reader uses must not be used after mu is unlocked.
func (c *Conn) parkLocked() {
	d := &c.direct
	c.release()
	d.parked, d.lone = true, 0
	if !d.armed {
		c.armLocked(false)
	}
}

// takeRoleLocked takes the parked role for the caller of x, and reports whether there was one.
func (c *Conn) takeRoleLocked(x *Exchange) bool {
	d := &c.direct
	if !d.parked {
		return false
	}
	d.parked, d.caller, d.got = false, x, false
	d.taken++
	if x.cancelable {
		if d.hasty = true; !d.fast {
			c.armLocked(true)
		}
	}
	return true
}

// resumeLocked has a goroutine read if the role is parked.
func (c *Conn) resumeLocked() {
	if c.direct.parked {
		c.direct.parked = false
		c.begin(c.read)
	}
}

// pollLocked handles what has come while the role was parked, if that may be something: the server may
// take no more calls. It unlocks mu meanwhile.
func (c *Conn) pollLocked() {
	d := &c.direct
	if !d.parked || time.Since(c.health.heard) < staleAfter {
		return
	}
	d.parked = false
	c.mu.Unlock()
	next := roleKept
	_, n, err := c.conn.TryRead(c)
	if n > 0 {
		next, err = c.receive(n)
	}
	if err != nil {
		c.fail(err)
	}
	c.mu.Lock()
	switch {
	case next == roleParked: // by the response of a call that has begun meanwhile
	case c.err != nil:
		c.release()
	case c.quietLocked():
		c.parkLocked()
	default:
		c.begin(c.read)
	}
}

// readFor reads until the call of the caller that reads is over. It returns false if the caller is to wait like others, since a
// goroutine reads on or the connection has ended.
func (c *Conn) readFor() bool {
	for {
		next := roleKept
		n, err := c.fill()
		if n > 0 {
			var failed error
			if next, failed = c.receive(n); failed != nil {
				err = failed
			}
		}
		switch {
		case next == roleParked:
			return true
		case next == roleOver:
			c.passOn()
			return true
		case err != nil:
			return c.stopReading(err)
		}
	}
}

// passOn starts a goroutine that reads on.
func (c *Conn) passOn() {
	c.mu.Lock()
	lasts := c.err == nil
	if lasts {
		c.begin(c.read)
	}
	c.mu.Unlock()
	if !lasts {
		c.release()
	}
}

// stopReading ends the reading of a caller whose read has failed, and reports whether its call was over
// before.
func (c *Conn) stopReading(err error) (over bool) {
	c.mu.Lock()
	relieved := c.direct.relieved && errors.Is(err, os.ErrDeadlineExceeded)
	over = c.direct.got
	c.endDirectLocked()
	c.mu.Unlock()
	if relieved {
		c.passOn()
		return over
	}
	c.fail(err)
	c.release()
	return over
}

// endDirectLocked notes that no caller reads any more.
func (c *Conn) endDirectLocked() {
	d := &c.direct
	d.caller, d.got = nil, false
	if d.relieved {
		d.relieved = false
		_ = c.conn.SetReadDeadline(time.Time{}) // fails on a closed connection only
	}
}

// relieveLocked ends the read of the caller that reads.
func (c *Conn) relieveLocked() {
	c.direct.relieved = true
	_ = c.conn.SetReadDeadline(past) // fails on a closed connection only, whose reads end
}

// armLocked sets the timer.
func (c *Conn) armLocked(fast bool) {
	d := &c.direct
	d.armed, d.fast = true, fast
	tick := parkTick
	if fast {
		tick = reliefTick
	}
	if d.clock == nil {
		d.clock = time.AfterFunc(tick, c.look)
		return
	}
	d.clock.Reset(tick)
}

func (d *direct) stopLocked() {
	if d.clock != nil {
		d.clock.Stop()
	}
}

// look relieves a caller that has read since the last look and can be cancelled, and has a goroutine
// read if the role has been parked since then.
func (c *Conn) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := &c.direct
	still := d.taken == d.seen
	hasty := d.hasty
	d.seen, d.hasty, d.armed = d.taken, false, false
	fast := d.fast
	d.fast = false
	switch {
	case c.err != nil:
	case d.caller != nil && still:
		if d.caller.cancelable {
			c.relieveLocked()
		} // the deadline of others relieves them
	case d.parked && still && !fast:
		c.resumeLocked()
	case d.caller != nil || d.parked:
		c.armLocked(hasty)
	}
}
