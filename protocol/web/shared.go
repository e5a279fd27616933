package web

import "time"

// The requests of an HTTP/2 connection share its link and the client's send buffer, so a
// request that waits for its turn has not stalled. While the connection receives 64 KiB
// within the stall timeout, the read deadlines of all its requests are set again.

// arrivals records what has arrived on an HTTP/2 connection. It is guarded by conn.mu.
type arrivals struct {
	bytes        int       // bytes that have arrived since enough
	enough       time.Time // when the last 64 KiB were complete
	lastExtended time.Time // when the read deadlines were last extended
}

// arrivedLocked counts n bytes and returns the requests whose read deadline is to be set
// again: none if that was done a moment ago, so that a fast upload does not cost more.
func (c *conn) arrivedLocked(n int) (waiting []*response) {
	a := &c.arrivals
	if a.bytes += n; a.bytes < stallBytes {
		return nil
	}
	a.bytes, a.enough = 0, time.Now()
	const often = 4 // deadlines are set again at most this many times in a stall timeout
	if a.enough.Sub(a.lastExtended) < c.StallTimeout()/often {
		return nil
	}
	a.lastExtended = a.enough
	for w := range c.responses {
		if !w.readBy.IsZero() {
			waiting = append(waiting, w)
		}
	}
	return waiting
}

// stallTimeLeft returns how much longer to wait for a message that does not arrive, because
// other requests of the connection make progress; 0 if they do not.
func (c *conn) stallTimeLeft() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.arrivals.enough.IsZero() {
		return 0
	}
	return max(0, c.StallTimeout()-time.Since(c.arrivals.enough))
}

// extend sets the read deadlines of requests again, unless the requests have ended.
func extend(requests []*response, stall time.Duration) {
	for _, w := range requests {
		w.whileServed(func() {
			if w.readsBy().After(time.Now()) {
				_ = w.SetReadDeadline(time.Now().Add(stall)) // an error means that the connection has ended
			}
		})
	}
}

// readsBy returns the deadline of reading the request.
func (w *response) readsBy() time.Time {
	w.conn.mu.Lock()
	defer w.conn.mu.Unlock()
	return w.readBy
}

// whileServed runs f unless the request has been served: after that net/http may reuse the
// writer, and f must not touch it.
func (w *response) whileServed(f func()) {
	w.serving.Lock()
	defer w.serving.Unlock()
	if !w.served {
		f()
	}
}

// end marks the request as served.
func (w *response) end() {
	w.serving.Lock()
	defer w.serving.Unlock()
	w.served = true
}
