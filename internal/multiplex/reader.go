package multiplex

import (
	"net"
	"time"
)

// stallTime is how long a peer may say nothing in the middle of an answer.
const stallTime = 10 * time.Second

// Reader reads a connection's answers. It is for one goroutine.
type Reader struct {
	conn   net.Conn
	midway bool
	armed  bool // a deadline is set
}

// NewReader returns a Reader.
func NewReader(c net.Conn) *Reader { return &Reader{conn: c} }

// Midway says whether an answer has arrived in part. While it has, more of it must come
// within ten seconds. Otherwise Read waits as long as it takes.
func (r *Reader) Midway(on bool) { r.midway = on }

// Read reads what has come.
func (r *Reader) Read(p []byte) (int, error) {
	if r.midway || r.armed {
		var deadline time.Time
		if r.midway {
			deadline = time.Now().Add(stallTime)
		}
		if err := r.conn.SetReadDeadline(deadline); err != nil {
			return 0, err
		}
		r.armed = r.midway
	}
	return r.conn.Read(p)
}
