package httpcalls

import (
	"errors"
	"net"
	"net/http/httptrace"
	"testing"

	"github.com/tandem-rpc/tandem"
)

// A request was not executed if writing it to the socket failed, and only then.
func TestFailedSaysWhatWasSent(t *testing.T) {
	refused := &net.OpError{Op: "write", Err: errors.New("broken pipe")}
	for name, tc := range map[string]struct {
		written  []error // results of writing the request, each time
		answered bool
		executed bool // it may have been executed
	}{
		"written":                       {[]error{nil}, false, true},
		"not known":                     {nil, false, true},
		"refused":                       {[]error{refused}, false, false},
		"refused, and answered":         {[]error{refused}, true, true},
		"refused after a whole one":     {[]error{nil, refused}, false, true},
		"ended for another reason":      {[]error{errors.New("http2: aborting request body write")}, false, true},
		"refused when reading the body": {[]error{&net.OpError{Op: "read", Err: errors.New("reset")}}, false, true},
	} {
		a := &Attempt{}
		a.connected.Store(true)
		a.answered.Store(tc.answered)
		for _, err := range tc.written {
			a.noteWritten(httptrace.WroteRequestInfo{Err: err})
		}
		err := a.Failed(errors.New("lost"))
		if tandem.CodeOf(err) != tandem.Unavailable || tandem.MayHaveExecuted(err) != tc.executed {
			t.Errorf("%s: %v, which may have executed: %v", name, err, tandem.MayHaveExecuted(err))
		}
	}
}

// A request that net/http sends again was not executed before: a draining server has refused
// it, and then it can't be connected to.
func TestRequestThatIsSentAgain(t *testing.T) {
	s := &Server{base: t.Context(), done: make(chan struct{})}
	ctx, a, end, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	trace := httptrace.ContextClientTrace(ctx)
	trace.GetConn("anywhere:80")
	trace.GotConn(httptrace.GotConnInfo{})
	trace.WroteRequest(httptrace.WroteRequestInfo{})
	if err := a.Failed(errors.New("lost")); !tandem.MayHaveExecuted(err) {
		t.Errorf("sent once: %v", err)
	}
	trace.GetConn("anywhere:80")
	if err := a.Failed(errors.New("connection refused")); tandem.MayHaveExecuted(err) {
		t.Errorf("no connection for it to be sent again: %v", err)
	}
}
