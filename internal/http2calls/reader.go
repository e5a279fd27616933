package http2calls

import (
	"errors"
	"io"
	"time"

	"github.com/tandem-rpc/tandem/internal/buffer"
	"github.com/tandem-rpc/tandem/internal/http2"
)

// staysLarge is how many reads get a large buffer after one that a small buffer was too small for.
const staysLarge = 16

// calmEvery is the time after which a server may send one more frame that furthers no call.
const calmEvery = 10 * time.Millisecond

// read handles what the server sends, until the connection ends or the reader's role is parked.
func (c *Conn) read() {
	for {
		next := roleKept
		n, err := c.fill()
		if n > 0 {
			var failed error
			if next, failed = c.receive(n); failed != nil {
				err = failed
			}
		}
		if next == roleParked {
			return
		}
		if err != nil {
			c.fail(err)
			c.release()
			return
		}
	}
}

// fill reads. An idle connection holds no buffer meanwhile.
func (c *Conn) fill() (n int, err error) {
	if c.kept == 0 {
		c.release()
		_, n, err = c.conn.ReadLazy(c)
	} else {
		c.makeRoom()
		n, err = c.conn.Read(c.buf[c.kept:])
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
	}
	switch {
	case c.buf != nil && c.kept+n == len(c.buf), n >= buffer.SmallRead:
		c.large = staysLarge
	case c.large > 0:
		c.large--
	}
	return n, err
}

// Take lends a buffer to a read that finds bytes.
func (c *Conn) Take() []byte {
	c.buf = buffer.GetRead(c.large > 0)
	return c.buf
}

// Give takes the buffer of a read back that has found none.
func (c *Conn) Give([]byte) { c.release() }

func (c *Conn) release() {
	if c.buf != nil {
		buffer.PutRead(c.buf)
		c.buf = nil
	}
}

// makeRoom makes room for the rest of a frame.
func (c *Conn) makeRoom() {
	if len(c.buf) == buffer.LargeRead {
		return // more than a frame, and what is kept is less than one
	}
	large := buffer.GetRead(true)
	copy(large, c.buf[:c.kept])
	c.release()
	c.buf = large
}

// receive handles the n bytes that were read, and says who reads next.
func (c *Conn) receive(n int) (next role, err error) {
	now := time.Now()
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return roleKept, c.err
	}
	passed := now.Sub(c.calmed).Truncate(calmEvery)
	c.m.Calm(int(passed / calmEvery))
	c.calmed = c.calmed.Add(passed)
	c.health.heardLocked(now)
	used, events, failed := c.m.Receive(c.buf[:c.kept+n])
	c.handleLocked(events)
	c.grantLocked()
	err = failed
	if err == nil && c.m.Closed() && c.m.Streams() == 0 {
		err = errAway
	}
	c.kept = copy(c.buf, c.buf[used:c.kept+n])
	woken := c.woken
	if err == nil {
		next = c.nextReaderLocked()
	}
	if next == roleParked { // with one response at most
		c.woken = nil
	}
	lead := c.leadLocked()
	c.mu.Unlock()
	for i, x := range woken {
		x.done <- struct{}{}
		woken[i] = nil
	}
	if next != roleParked {
		c.woken = woken[:0]
	}
	if lead {
		c.write(len(woken) > 0) // those that were woken may call again
	}
	return next, err
}

// handleLocked passes events to the streams that they are of.
func (c *Conn) handleLocked(events []http2.Event) {
	for i := range events {
		ev := &events[i]
		switch ev.Kind {
		case http2.Headed, http2.Body, http2.Trailed:
			c.health.pings = 0
		case http2.Reset, http2.Writable, http2.Sent, http2.Acked, http2.Away:
		}
		if ev.Stream == nil {
			continue
		}
		if o, ok := ev.Stream.Owner.(owner); ok {
			o.eventLocked(c, ev)
		} else if ev.Block != nil {
			ev.Block.Free()
		}
	}
}
