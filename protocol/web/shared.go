package web

import "time"

// The requests of a connection of HTTP/2 share its link and the client's send buffer, so
// that one of them waits for its turn is no stall. While the connection brings 64 KiB in the
// stall timeout, all of them have their time again.

// arrivals is what has come on a connection of HTTP/2. It is guarded by the mutex of conn.
type arrivals struct {
	bytes  int       // since enough had last come
	enough time.Time // when 64 KiB more had last come
	spread time.Time // when the requests last got their time again for that
}

// arrivedLocked counts n bytes and returns the requests whose time is to begin again. Few
// bytes after the last time it returns none: a fast upload pays for itself only.
func (c *conn) arrivedLocked(n int) (waiting []*response) {
	a := &c.arrivals
	if a.bytes += n; a.bytes < stallBytes {
		return nil
	}
	a.bytes, a.enough = 0, time.Now()
	const often = 4 // times in a stall timeout
	if a.enough.Sub(a.spread) < c.StallTimeout()/often {
		return nil
	}
	a.spread = a.enough
	for w := range c.responses {
		if !w.readBy.IsZero() {
			waiting = append(waiting, w)
		}
	}
	return waiting
}

// patience returns how long a message that does not come may still take, since others do: 0
// if nothing comes.
func (c *conn) patience() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.arrivals.enough.IsZero() {
		return 0
	}
	return max(0, c.StallTimeout()-time.Since(c.arrivals.enough))
}

// extend gives requests their time again, unless they have ended.
func extend(requests []*response, stall time.Duration) {
	for _, w := range requests {
		w.whileServed(func() {
			if w.readsBy().After(time.Now()) {
				_ = w.SetReadDeadline(time.Now().Add(stall)) // fails on a connection that has ended
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

// whileServed runs f unless the request has been served: then net/http uses the writer for
// another, or for none, and it must not be touched.
func (w *response) whileServed(f func()) {
	w.serving.Lock()
	defer w.serving.Unlock()
	if !w.served {
		f()
	}
}

// end says that the request has been served.
func (w *response) end() {
	w.serving.Lock()
	defer w.serving.Unlock()
	w.served = true
}
