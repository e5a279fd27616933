package web

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// deadlines counts the write deadlines that a handler sets, each of which waits for the
// goroutine of the HTTP/2 connection.
type deadlines struct {
	http.ResponseWriter

	set int
}

func (d *deadlines) SetWriteDeadline(time.Time) error {
	d.set++
	return nil
}

// The server starts and writes nothing for a request that its client has reset. This bounds
// the goroutines of a flood of resets.
func TestResetRequestsCostNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/Secret", http.NoBody)
	r.ProtoMajor, r.ProtoMinor = 2, 0
	w := &deadlines{ResponseWriter: httptest.NewRecorder()}
	c := &conn{entering: make(ticket, 1), all: make(ticket, 1)}
	c.serve(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the handler was called") }), w, r)

	for range 20 { // select would pick any of the ready cases
		if _, err := enter(ctx, &response{ResponseWriter: w, conn: c}); err == nil {
			t.Fatal("it took a place among the calls that are entering")
		}
	}
	limitAnswer(http.NewResponseController(w), r, nil, 0)
	x := &exchange{req: r, w: w, control: http.NewResponseController(w)}
	g := newGateway(&options{}).newRefusalGate(w, x)
	g.WriteHeader(http.StatusOK)
	g.Flush()
	g.refuse(context.Canceled)
	if w.set > 0 || g.open {
		t.Errorf("%d deadlines were set, and answers are open: %v", w.set, g.open)
	}
}
