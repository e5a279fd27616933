package multiplex

import (
	"net"
	"time"
)

// stallTime is how long a peer may send nothing in the middle of a response.
const stallTime = 10 * time.Second

// Reader reads responses from a connection. One goroutine may use it.
type Reader struct {
	conn   net.Conn
	midway bool
	armed  bool // a deadline is set
}

// NewReader returns a Reader.
func NewReader(c net.Conn) *Reader { return &Reader{conn: c} }

// Midway says whether part of a response has arrived. If so, more of it must come within ten
// seconds. Otherwise Read has no time limit.
func (r *Reader) Midway(on bool) { r.midway = on }

// Read reads from the connection.
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
