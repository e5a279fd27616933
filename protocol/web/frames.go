package web

import "time"

// frames follows the frames of an HTTP/2 connection, after the first line of its preface,
// as far as needed to know whether a frame or a header is incomplete. The zero value
// expects the rest of the preface.
type frames struct {
	greeted    int     // bytes of the rest of the preface that have arrived
	head       [9]byte // head of the current frame: RFC 9113, section 4.1
	got        int     // bytes of head that have arrived
	left       int     // bytes of the frame's payload that have not arrived
	unfinished bool    // a header has begun, and CONTINUATION frames must follow
}

// restOfPreface is how many bytes follow "PRI * HTTP/2.0" and its empty line.
const restOfPreface = len("SM\r\n\r\n")

// midway reports whether a frame or a header has begun and not ended.
func (f *frames) midway() bool {
	return f.greeted < restOfPreface || f.got > 0 || f.left > 0 || f.unfinished
}

// add processes the next bytes.
func (f *frames) add(b []byte) {
	n := min(len(b), restOfPreface-f.greeted)
	f.greeted += n
	for b = b[n:]; len(b) > 0; {
		if f.left > 0 {
			n = min(len(b), f.left)
			f.left -= n
			b = b[n:]
			continue
		}
		n = copy(f.head[f.got:], b)
		b = b[n:]
		if f.got += n; f.got == len(f.head) {
			f.begin()
		}
	}
}

// begin reads the head of a frame.
func (f *frames) begin() {
	const typeHeaders, typeContinuation, flagEndHeaders = 1, 9, 4
	f.got = 0
	f.left = int(f.head[0])<<16 | int(f.head[1])<<8 | int(f.head[2])
	if kind := f.head[3]; kind == typeHeaders || kind == typeContinuation {
		f.unfinished = f.head[4]&flagEndHeaders == 0
	}
}

// paceLocked sets the read deadline for a frame, or a header of several frames, that has
// begun: 64 KiB, or the rest, must arrive within the stall timeout.
func (c *conn) paceLocked(n int) {
	midway := c.frames.midway()
	c.unpaced -= n
	switch {
	case c.closed || !midway && !c.paced || midway && c.paced && c.unpaced > 0:
		return
	case midway:
		c.unpaced = stallBytes
		_ = c.Conn.SetReadDeadline(time.Now().Add(c.StallTimeout())) // an error is reported by the next read
	default:
		_ = c.Conn.SetReadDeadline(time.Time{}) // an error is reported by the next read
	}
	c.paced = midway
}
