package httpcalls

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func connect(address string) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", address) }
}

// get makes a request and returns its error.
func get(ctx context.Context, s *Server) error {
	return s.Do(ctx, func(ctx context.Context, a *Attempt) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://anywhere/", http.NoBody)
		if err != nil {
			return err
		}
		resp, err := s.HTTP.Do(req)
		if err != nil {
			return a.Failed(err)
		}
		defer resp.Body.Close()
		if !a.Answered() {
			return errors.New("there is a response, and Answered is false")
		}
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	})
}

// Calls in flight end with the Server, and may have been executed; later ones are not executed.
func TestClose(t *testing.T) {
	began := make(chan struct{}, 1)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began <- struct{}{}
		<-r.Context().Done()
	}))
	defer web.Close()
	s, err := Connect(t.Context(), connect(web.Listener.Addr().String()))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- get(context.Background(), s) }()
	<-began
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil || !tandem.MayHaveExecuted(err) {
		t.Error(err)
	}
	if err := get(t.Context(), s); tandem.MayHaveExecuted(err) || !errors.Is(s.Err(), ErrClosed) {
		t.Error(err, s.Err())
	}
	<-s.Done()
}

// A Server without calls can be closed, too.
func TestCloseUnused(t *testing.T) {
	near, far := net.Pipe()
	s, err := Connect(t.Context(), func(context.Context) (net.Conn, error) { return near, nil })
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	if _, err := far.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

// A server that can't be connected to any more has ended, and calls that were not sent were not
// executed. A caller that gives up does not end it.
func TestEnd(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	s, err := Connect(t.Context(), connect(web.Listener.Addr().String()))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := get(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	left, leave := context.WithCancel(t.Context())
	leave()
	if err := get(left, s); tandem.CodeOf(err) != tandem.Canceled || s.Err() != nil {
		t.Error(err, s.Err())
	}
	web.Close()
	for end := time.Now().Add(time.Minute); s.Err() == nil && time.Now().Before(end); {
		_ = get(t.Context(), s)
	}
	if err = get(t.Context(), s); tandem.CodeOf(err) != tandem.Unavailable || tandem.MayHaveExecuted(err) {
		t.Error(err)
	}
	<-s.Done()
	if _, err := Connect(t.Context(), connect(web.Listener.Addr().String())); err == nil {
		t.Error("connected to a server that is closed")
	}
}

// impatient closes its first connection without reading.
type impatient struct {
	net.Listener
	once sync.Once
}

func (l *impatient) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	closed := false
	l.once.Do(func() { closed = err == nil && c.Close() == nil })
	if closed {
		return l.Listener.Accept()
	}
	return c, err
}

// If the server has closed the first connection because it waited too long for a header, a late
// first call gets another connection.
func TestLateFirstCall(t *testing.T) {
	web := httptest.NewUnstartedServer(http.NotFoundHandler())
	web.Listener = &impatient{Listener: web.Listener}
	web.Start()
	t.Cleanup(web.Close)
	s, err := Connect(t.Context(), connect(web.Listener.Addr().String()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	s.made = s.made.Add(-2 * maxUnused)
	if err := get(t.Context(), s); err != nil {
		t.Error(err)
	}
}

// Strip removes the fields that make net/http send a request again.
func TestStrip(t *testing.T) {
	h := http.Header{"Idempotency-Key": {"1"}, "X-Idempotency-Key": {"2"}, "Other": {"3"}}
	if Strip(h); len(h) != 1 {
		t.Error(h)
	}
}
