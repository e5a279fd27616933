package web

import (
	"context"
	"net/http"
)

// Calls whose interceptors have not let them in are counted, since a client needs no
// credentials to begin them, and may reset them at once: a goroutine of the call's own
// and what interceptors take are bounded, beside the streams of a connection.
const (
	maxEntering     = 192 // on all connections
	maxEnteringConn = 16  // further ones of each connection, so that none waits for others
)

// ticket is a place among the calls that are entering. Its zero value is none.
type ticket chan struct{}

// leave gives the place back.
func (t ticket) leave() {
	if t != nil {
		<-t
	}
}

// abandoned reports whether the client of a request over HTTP/2 has reset it. Whatever is
// written then, and each deadline that is set, waits for the connection's goroutine only
// to be thrown away.
func abandoned(r *http.Request) bool { return r.ProtoMajor >= 2 && r.Context().Err() != nil }

// enter waits for a place, until the request is canceled. A call over HTTP/1 needs none:
// there is one at a time on a connection.
func enter(ctx context.Context, w http.ResponseWriter) (ticket, error) {
	resp, ok := w.(*response)
	if !ok || resp.http1 {
		return nil, nil //nolint:nilnil // a ticket that is none
	}
	if err := ctx.Err(); err != nil { // select would take a place that is free all the same
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
