package web

import (
	endian "encoding/binary"
	"io"
	"sync"
	"time"
)

// pieces is the body of a stream's request: messages with five bytes before each that tell
// its length. One that has begun must keep coming, 64 KiB or its rest within the stall
// timeout, or as much of the connection's other requests; between messages there is no limit.
type pieces struct {
	io.ReadCloser

	x       *exchange
	conn    *conn       // whose other requests share the link
	mu      sync.Mutex  // of timer and timed
	timer   *time.Timer // nil before the first message
	timed   bool        // it runs, since a message has begun
	head    [5]byte
	got     int   // bytes of the head
	left    int64 // bytes of the message
	unpaced int   // bytes until the timer begins again
}

// Read reads the body.
func (p *pieces) Read(b []byte) (int, error) {
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

func (p *pieces) midway() bool { return p.got > 0 || p.left > 0 }

func (p *pieces) add(b []byte) {
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

func (p *pieces) start() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timed = true
	if p.timer == nil {
		p.timer = time.AfterFunc(p.x.conn.StallTimeout(), p.overdue)
		return
	}
	p.timer.Reset(p.x.conn.StallTimeout())
}

func (p *pieces) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timed = false
	if p.timer != nil {
		p.timer.Stop()
	}
}

// overdue ends receiving, unless the link brings other requests instead.
func (p *pieces) overdue() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.timed {
		return
	}
	if p.conn != nil {
		if wait := p.conn.patience(); wait > 0 {
			p.timer.Reset(wait)
			return
		}
	}
	p.x.stalled()
}

// stalled ends receiving: a message does not come.
func (x *exchange) stalled() {
	x.ending.Lock()
	defer x.ending.Unlock()
	if !x.finished.Load() { // else net/http's goroutine has the response
		_ = x.control.SetReadDeadline(time.Unix(1, 0))
	}
}
