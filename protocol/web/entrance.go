package web

import (
	"context"
	"net/http"
)

// Calls that are entering, which no interceptor has passed yet, are limited: a client needs
// no credentials to begin one, and may reset it at once. The limit bounds the goroutines of
// these calls and what their interceptors allocate, in addition to the limit of streams.
const (
	maxEntering     = 192 // calls on all connections
	maxEnteringConn = 16  // additional calls for each connection, so that no connection waits for others
)

// ticket is a place among the calls that are entering. A nil ticket holds no place.
type ticket chan struct{}

// leave gives the place back.
func (t ticket) leave() {
	if t != nil {
		<-t
	}
}

// abandoned reports whether the client of an HTTP/2 request has reset it. Each write and
// each deadline after that would wait for the connection's goroutine, which discards it.
func abandoned(r *http.Request) bool { return r.ProtoMajor >= 2 && r.Context().Err() != nil }

// enter waits for a place until the request is canceled. A call over HTTP/1 needs none: a
// connection has one at a time.
func enter(ctx context.Context, w http.ResponseWriter) (ticket, error) {
	resp := responseOf(w)
	if resp == nil || resp.http1 {
		return nil, nil //nolint:nilnil // HTTP/1 needs no place
	}
	if err := ctx.Err(); err != nil { // select could take a free place even so
		return nil, err
	}
	own, shared := resp.conn.entering, resp.conn.all
	select {
	case own <- struct{}{}:
		return own, nil
	case shared <- struct{}{}:
		return shared, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
