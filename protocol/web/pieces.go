package web

import (
	endian "encoding/binary"
	"io"
	"sync"
	"time"
)

// timedStreamBody is the body of a stream's request: messages, each after five bytes with its
// length. A message that has begun must keep arriving: 64 KiB, or the rest, within the
// stall timeout, or as much of the connection's other requests. Between messages there is
// no limit.
type timedStreamBody struct {
	io.ReadCloser

	x       *exchange
	conn    *conn       // its other requests share the link; nil over HTTP/1
	mu      sync.Mutex  // guards timer and timed
	timer   *time.Timer // nil before the first message
	timed   bool        // the timer runs, since a message has begun
	head    [5]byte
	got     int   // bytes of head
	left    int64 // bytes of the message that are missing
	unpaced int   // bytes until the timer is set again
}

// Read reads the body.
func (p *timedStreamBody) Read(b []byte) (int, error) {
	n, err := p.ReadCloser.Read(b)
	was := p.midway()
	p.add(b[:n])
	p.unpaced -= n
	switch now := p.midway(); {
	case err != nil || was && !now:
		p.stop()
	case now && (!was || p.unpaced <= 0):
		p.unpaced = stallBytes
		p.start()
	}
	return n, err
}

func (p *timedStreamBody) midway() bool { return p.got > 0 || p.left > 0 }

func (p *timedStreamBody) add(b []byte) {
	for len(b) > 0 {
		if p.left > 0 {
			n := min(int64(len(b)), p.left)
			p.left -= n
			b = b[n:]
			continue
		}
		n := copy(p.head[p.got:], b)
		b = b[n:]
		if p.got += n; p.got == len(p.head) {
			p.got, p.left = 0, int64(endian.BigEndian.Uint32(p.head[1:]))
		}
	}
}

func (p *timedStreamBody) start() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timed = true
	if p.timer == nil {
		p.timer = time.AfterFunc(p.x.conn.StallTimeout(), p.overdue)
		return
	}
	p.timer.Reset(p.x.conn.StallTimeout())
}

func (p *timedStreamBody) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timed = false
	if p.timer != nil {
		p.timer.Stop()
	}
}

// overdue ends receiving, unless other requests of the connection made progress in the
// meantime.
func (p *timedStreamBody) overdue() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.timed {
		return
	}
	if p.conn != nil {
		if wait := p.conn.stallTimeLeft(); wait > 0 {
			p.timer.Reset(wait)
			return
		}
	}
	p.x.stalled()
}

// stalled ends receiving, since a message does not arrive.
func (x *exchange) stalled() {
	x.ending.Lock()
	defer x.ending.Unlock()
	if !x.finished.Load() { // else the call has ended
		_ = x.control.SetReadDeadline(time.Unix(1, 0))
	}
}
