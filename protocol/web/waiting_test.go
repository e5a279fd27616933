package web_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
)

// upload is a request with a large message.
type upload struct {
	path, kind string
	envelope   bool
	undeclared bool // it does not say its length
	fit        int  // uploads on a connection that uploadMemory has room for
}

const (
	uploadSize   = 64 << 10         // of a message of an upload, in bytes; a server holds three times as much
	uploadMemory = 128 * uploadSize // of the server, in bytes
)

var errRefused = errors.New("there is no memory")

// uploads are the kinds of requests that wait for memory. A connection has half of the memory, and
// another quarter for what arrives of messages that wait.
func uploads() map[string]upload {
	// 16 requests that hold up to four times their size are in a connection's half of the memory, and
	// what arrives of 32 others in its quarter. A message of unknown length reserves up to twice its memory.
	const fit, fitDoubling = 48, 30
	return map[string]upload{
		"JSON":                {path: "/Text/Length", kind: "application/json", fit: fit},
		"JSON, no length":     {path: "/Text/Length", kind: "application/json", undeclared: true, fit: fitDoubling},
		"gRPC":                {path: "/Text/Length", kind: "application/grpc+json", envelope: true, fit: fit},
		"stream over Connect": {path: "/Numbers/Sum", kind: "application/connect+json", envelope: true, fit: fit},
		"stream of lines":     {path: "/Numbers/Sum", kind: "application/x-ndjson", undeclared: true, fit: fitDoubling},
		"stream with JSON":    {path: "/Numbers/Sum", kind: "application/json", fit: fit},
		"stream over gRPC":    {path: "/Numbers/Sum", kind: "application/grpc+json", envelope: true, undeclared: true, fit: fit},
	}
}

// message is what an upload sends.
func (u upload) message() []byte {
	b := []byte(`"` + strings.Repeat("a", uploadSize-2) + `"`)
	if u.path == "/Numbers/Sum" {
		b = []byte(strings.Repeat(" ", uploadSize-1) + "1")
	}
	if u.envelope {
		return envelope(b)
	}
	return b
}

// send makes the request, and returns errRefused if it was refused as not executed.
func (u upload) send(ctx context.Context, c *http.Client, body io.Reader) error {
	if u.undeclared {
		body = struct{ io.Reader }{body} // net/http sends no Content-Length for this type
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost"+u.path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", u.kind)
	req.Header.Set("TE", "trailers")
	req.Header.Set("Accept", "application/x-ndjson") // for those without a protocol of their own
	res, err := c.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	answer := fmt.Sprint(res.StatusCode, " ", res.Header, " ", string(b), " ", res.Trailer)
	const grpcExhausted, grpcOutOfRange = "8", "11"
	status := res.Trailer.Get("Grpc-Status") + res.Header.Get("Grpc-Status")
	switch {
	case status == grpcExhausted, strings.Contains(answer, "resource_exhausted"), strings.Contains(answer, "grpc-status: "+grpcExhausted):
		return errRefused
	case strings.Contains(answer, fmt.Sprint(uploadSize-2)), strings.Contains(answer, "no more after 1"), status == grpcOutOfRange:
		return nil
	}
	return errors.New(answer)
}

// newUploadTest returns a server for uploads, to which its client has one connection.
func newUploadTest(t *testing.T, opts ...server.Option) *webTest {
	t.Helper()
	w := newWebTest(t, web.New(), opts...)
	w.must(w.srv.RegisterFunc("Text.Length", func(s string) int { return len(s) }))
	w.must(server.HandleStream(w.srv, "Numbers.Sum", sum))
	w.h2.Transport.(*http.Transport).MaxConnsPerHost = 1 //nolint:forcetypeassert // it is newWebTest's
	return w
}

// sendAll makes n uploads at the same time, and returns how many were refused.
func (w *webTest) sendAll(u upload, n int) (refused int) {
	w.Helper()
	message := u.message()
	began := time.Now()
	var wg sync.WaitGroup
	var count atomic.Int64
	for range n {
		wg.Go(func() {
			switch err := u.send(w.Context(), w.h2, strings.NewReader(string(message))); {
			case errors.Is(err, errRefused):
				count.Add(1)
			case err != nil:
				w.Errorf("after %v: %.300v", time.Since(began), err)
			}
		})
	}
	wg.Wait()
	if took := time.Since(began); took > 0 {
		w.Errorf("%d uploads took %v: they have waited for each other's data", n, took)
	}
	return int(count.Load())
}

// Uploads on one HTTP/2 connection of which not all find memory at once do not keep each other's
// data from arriving: those for which there is room succeed, the others are refused at once.
func TestUploadsThatWait(t *testing.T) {
	for name, u := range uploads() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newUploadTest(t, server.WithMemory(uploadMemory))
				if refused := w.sendAll(u, u.fit); refused > 0 {
					t.Errorf("%d of %d are refused, though there is room", refused, u.fit)
				}
			})
		})
		t.Run(name+", too many", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const all, memory = 100, uploadMemory / 4
				least := memory / 2 / (3 * uploadSize) // the share of a connection
				if u.undeclared && !u.envelope {
					least /= 2 // what it reserves doubles
				}
				w := newUploadTest(t, server.WithMemory(memory))
				if done := all - w.sendAll(u, all); done < least {
					t.Errorf("%d of %d uploads succeed, want at least %d", done, all, least)
				}
			})
		})
	}
}

// Uploads that stall, are canceled or lose their connection while they wait for memory leave
// nothing behind: later ones find all of it.
func TestUploadsThatEndWhileTheyWait(t *testing.T) {
	const stall, part, memory = 10 * time.Second, uploadSize / 4, uploadMemory / 4
	const early = 6 // uploads of a connection that may arrive while they wait: they fit into a quarter of the memory
	for name, u := range uploads() {
		for how, end := range map[string]func(cancel, cut func()){
			"stall":           func(_, _ func()) { time.Sleep(2 * stall) }, // virtual
			"cancel":          func(cancel, _ func()) { cancel() },
			"lost connection": func(_, cut func()) { cut() },
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newUploadTest(t, server.WithStallTimeout(stall), server.WithMemory(memory))
					cut := w.cutter()
					var wg sync.WaitGroup
					release := w.holdMemory(&wg)
					ctx, cancel := context.WithCancel(t.Context())
					message, rest := u.message()[:part], make(chan struct{})
					for range 20 {
						wg.Go(func() {
							if err := u.send(ctx, w.h2, io.MultiReader(bytes.NewReader(message), never(rest))); err == nil {
								t.Error("a part of a message is served")
							}
						})
					}
					synctest.Wait()
					end(cancel, cut)
					close(rest)
					cancel()
					synctest.Wait()
					release()
					wg.Wait()
					release = w.holdMemory(&wg)
					wg.Go(func() {
						if refused := w.sendAll(u, early); refused > 0 {
							t.Errorf("%d are refused: memory was lost", refused)
						}
					})
					synctest.Wait()
					release()
					wg.Wait()
				})
			})
		}
	}
}

// never is a reader whose reads wait until it is closed.
type never <-chan struct{}

func (n never) Read([]byte) (int, error) {
	<-n
	return 0, io.ErrUnexpectedEOF
}

// cutter returns a function that cuts the connection of w.h2.
func (w *webTest) cutter() (cut func()) {
	var last net.Conn
	w.h2.Transport.(*http.Transport).DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { //nolint:forcetypeassert // it is newWebTest's
		c, err := w.net.Dial(ctx, "a")
		last = c
		return c, err
	}
	return func() { _ = last.Close() }
}

// holdMemory makes uploads that hold all memory of their connection until release is called.
func (w *webTest) holdMemory(wg *sync.WaitGroup) (release func()) {
	const share, beyond = 5, 1 // uploads that a quarter of uploadMemory has room for; one may exceed it
	until := make(chan struct{})
	name := fmt.Sprintf("Hold%p", until)
	w.must(w.srv.RegisterFunc("Text."+name, func(s string) int {
		<-until
		return len(s)
	}))
	u := upload{path: "/Text/" + name, kind: "application/json"}
	for range share + beyond {
		wg.Go(func() { _ = u.send(w.Context(), w.h2, bytes.NewReader(u.message())) }) // its connection may be cut
	}
	synctest.Wait()
	return func() { close(until) }
}
