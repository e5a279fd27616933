package web_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
)

// sending is an HTTP/2 request whose header has been sent, and its response.
type sending struct {
	body   *io.PipeWriter
	status chan int
}

func (w *webTest) send(path, contentType string, length int64) sending {
	r, body := io.Pipe()
	s := sending{body, make(chan int, 1)}
	req, err := http.NewRequestWithContext(w.Context(), http.MethodPost, "http://tandem.test"+path, r)
	w.must(err)
	req.ContentLength = length
	req.Header.Set("Content-Type", contentType)
	go func() {
		res, err := w.h2.Do(req)
		if err != nil {
			w.Error(err)
			s.status <- 0
			return
		}
		_ = res.Body.Close()
		s.status <- res.StatusCode
	}()
	synctest.Wait()
	return s
}

// A refusal is sent after the rest of its request: an earlier one makes that rest a stream
// error, and clients discard the response.
func TestRefusalWaitsForItsRequest(t *testing.T) {
	for name, c := range map[string]struct {
		path, contentType string
		status            int
	}{
		"no method":    {"/Arith/Add", "application/json", http.StatusNotFound},
		"another type": {"/Arith/Mul", "text/plain", http.StatusUnsupportedMediaType},
		"interceptor":  {"/Arith/Div", "application/json", http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWebTest(t, web.New(), server.WithInterceptors(notDiv))
				w.must(w.srv.RegisterName("Arith", arith{}))
				s := w.send(c.path, c.contentType, 2)
				select {
				case status := <-s.status:
					t.Errorf("%d before the request was there", status)
				default:
				}
				_, err := s.body.Write([]byte("{}"))
				w.must(errors.Join(err, s.body.Close()))
				if status := <-s.status; status != c.status {
					t.Errorf("%d", status)
				}
			})
		})
	}
}

// notDiv is an interceptor that refuses one method.
func notDiv(next tandem.Func) tandem.Func {
	return func(ctx context.Context, call *tandem.Call) error {
		if call.Method == "Arith.Div" {
			return tandem.Errorf(tandem.PermissionDenied, "not that one")
		}
		return next(ctx, call)
	}
}

// A refusal waits neither for a request that is large nor for one that does not arrive.
func TestRefusalDoesNotWaitForLong(t *testing.T) {
	for name, c := range map[string]struct {
		length int64
		wait   time.Duration
	}{
		"length unknown": {-1, 0},
		"large":          {1 << 20, 0},
		"nothing comes":  {2, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWebTest(t, web.New(), server.WithStallTimeout(time.Second))
				began := time.Now()
				s := w.send("/Arith/Add", "application/json", c.length)
				status := <-s.status
				_ = s.body.Close()
				if took := time.Since(began); status != http.StatusNotFound || took != c.wait {
					t.Errorf("%d after %v", status, took)
				}
			})
		})
	}
}
