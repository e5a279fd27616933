package http2calls

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"
)

// writer is the state of writing. A goroutine that queues something while no other one writes becomes
// the writer: it writes all that has gathered. No goroutine waits for the server in a write but one
// that is started for that.
type writer struct {
	busy     bool   // a goroutine writes, or is about to
	yielding bool   // it lets others add something first
	turn     uint64 // changes when another goroutine takes over
	taken    uint64 // bytes that were taken out of the machine, in total
	reached  uint64 // bytes that may have reached the server, in total
	spare    []byte // a buffer to be used again
	gain     yieldScore
}

// enoughToWrite is how many bytes one write should have: the server idles while more gather.
const enoughToWrite = 16 << 10

// position returns where in all that is written the next byte will be.
func (c *Conn) positionLocked() uint64 { return c.writer.taken + uint64(len(c.m.Output())) }

// leadLocked makes the calling goroutine the writer if there is something to write and no goroutine
// writes. On true the caller must unlock and call write.
func (c *Conn) leadLocked() bool {
	w := &c.writer
	switch queued := len(c.m.Output()); {
	case queued == 0 || c.err != nil:
		return false
	case w.busy && (!w.yielding || queued < enoughToWrite):
		return false
	}
	w.busy, w.yielding = true, false
	w.turn++
	return true
}

// flush writes what is queued, unless another goroutine does.
func (c *Conn) flush() {
	c.mu.Lock()
	lead := c.leadLocked()
	c.mu.Unlock()
	if lead {
		c.write(false)
	}
}

// maxRounds is how many writes a goroutine makes for others.
const maxRounds = 8

// write writes until nothing is left. With yield it first lets other callers add their requests, as
// long as that makes writes larger.
func (c *Conn) write(yield bool) {
	for round, last := 0, []byte(nil); ; round++ {
		b := c.next(last, yield)
		if b == nil {
			return
		}
		if round == maxRounds || !c.conn.CanTry() {
			c.spawn(func() { c.writeRest(b, b) })
			return
		}
		n, err := c.conn.TryWrite(b)
		if err != nil {
			c.wrote(len(b) - n)
			c.fail(err)
			return
		}
		if n < len(b) {
			c.wrote(len(b) - n)
			c.spawn(func() { c.writeRest(b, b[n:]) })
			return
		}
		last = b
	}
}

// spawn starts a goroutine unless the connection has ended.
func (c *Conn) spawn(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.begin(f)
	}
}

// next takes back a buffer that was written and returns the next one, or nil if the calling goroutine
// is not the writer any more.
func (c *Conn) next(last []byte, yield bool) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := &c.writer
	if cap(last) <= maxSpare && last != nil {
		w.spare = last
	}
	if yield && len(c.m.Output()) > 0 && len(c.m.Output()) < enoughToWrite && w.gain.worth(c.m.Streams()) && !c.yieldLocked() {
		return nil
	}
	b := c.takeLocked()
	w.reached = w.taken
	return b
}

// takeLocked takes what is to be written, or ends the writer's turn.
func (c *Conn) takeLocked() []byte {
	w := &c.writer
	if len(c.m.Output()) == 0 || c.err != nil {
		w.busy = false
		return nil
	}
	b := c.m.Take(w.spare)
	w.spare = nil
	w.taken += uint64(len(b))
	c.handleLocked(c.m.Pump())
	c.grantLocked()
	return b
}

// wrote notes that n bytes of those that were taken have not been written.
func (c *Conn) wrote(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writer.reached = c.writer.taken - uint64(n) //nolint:gosec // not negative
}

// yieldLocked unlocks the mutex, lets other goroutines run, and locks it again. It reports whether the
// calling goroutine is still the writer.
func (c *Conn) yieldLocked() bool {
	w := &c.writer
	queued, turn := len(c.m.Output()), w.turn
	w.yielding = true
	c.mu.Unlock()
	runtime.Gosched()
	c.mu.Lock()
	if w.turn != turn {
		w.gain.learn(true)
		return false
	}
	w.yielding = false
	w.gain.learn(len(c.m.Output()) > queued)
	return true
}

// yieldScore learns whether a yield before a write makes the write larger. With concurrent calls such
// yields halve the use of CPU; where they gain nothing they only add latency.
type yieldScore struct {
	score int8
	skip  uint16
}

const yieldPause = 256 // writes without a yield, after too many yields without gain

func (y *yieldScore) worth(open int) bool {
	if open < 2 {
		return false
	}
	if y.skip > 0 {
		y.skip--
		return false
	}
	return true
}

func (y *yieldScore) learn(gained bool) {
	if gained {
		y.score = min(y.score+4, 8) // a write costs much more than a yield
		return
	}
	if y.score--; y.score < -4 {
		y.score, y.skip = 0, yieldPause
	}
}

// writeRest is the writer when the server does not take all at once, or may not. b is the buffer of
// rest.
func (c *Conn) writeRest(b, rest []byte) {
	for {
		if err := c.writeSlowly(rest); err != nil {
			c.fail(err)
			return
		}
		if b = c.nextRest(b); b == nil {
			return
		}
		rest = b
	}
}

// writeSlowly writes all of rest; each piece has a deadline.
func (c *Conn) writeSlowly(rest []byte) error {
	const piece = 64 << 10
	for len(rest) > 0 {
		part := rest[:min(len(rest), piece)]
		c.wrote(len(rest) - len(part)) // part may reach the server before the write returns
		n, err := c.conn.WriteBy(part, time.Now().Add(c.cfg.Stall))
		rest = rest[n:]
		if err != nil {
			c.wrote(len(rest))
		}
		switch {
		case err == nil, n > 0 && errors.Is(err, os.ErrDeadlineExceeded):
		case errors.Is(err, os.ErrDeadlineExceeded):
			return fmt.Errorf("nothing could be written for %v", c.cfg.Stall)
		default:
			return err
		}
	}
	return nil
}

// nextRest takes the buffer to write next, or ends the writer's turn.
func (c *Conn) nextRest(last []byte) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := &c.writer
	if cap(last) <= maxSpare {
		w.spare = last
	}
	w.reached = w.taken
	b := c.takeLocked()
	if b == nil && c.err == nil {
		_ = c.conn.SetWriteDeadline(time.Time{}) // fails on a closed connection only
	}
	return b
}
