package web_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
)

const stall = 10 * time.Second

// newHostileTest returns a test server whose method Secret needs credentials.
func newHostileTest(t *testing.T) *webTest {
	t.Helper()
	w := newWebTest(t, web.New(), server.WithStallTimeout(stall), server.WithInterceptors(
		func(next tandem.Func) tandem.Func {
			return func(ctx context.Context, call *tandem.Call) error {
				if call.Method == "Secret" && call.Metadata.Get("authorization") != "right" {
					return tandem.Errorf(tandem.Unauthenticated, "not known")
				}
				return next(ctx, call)
			}
		}))
	length := func(s string) int { return len(s) }
	w.must(w.srv.RegisterFunc("Len", length, server.MethodSafe()))
	w.must(w.srv.RegisterFunc("Text.Len", length))
	w.must(w.srv.RegisterFunc("Secret", length))
	w.must(server.HandleStream(w.srv, "Numbers.Sum", sum))
	return w
}

// raw is a client connection on which a test writes any bytes.
type raw struct {
	net.Conn

	r *bufio.Reader
}

func (w *webTest) raw(request string) *raw {
	w.Helper()
	c, err := w.net.Dial(w.Context(), "a")
	w.must(err)
	_, err = io.WriteString(c, request)
	w.must(err)
	return &raw{c, bufio.NewReader(c)}
}

// answer reads a response and returns how long it took. The text says whether the
// connection stays open.
func (c *raw) answer() (status int, text string, took time.Duration, err error) {
	began := time.Now()
	res, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return 0, "", time.Since(began), err
	}
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, string(b), time.Since(began), errors.Join(err, res.Body.Close())
}

// closedAfter returns how long it takes until the server closes the connection.
func (c *raw) closedAfter() (time.Duration, error) {
	began := time.Now()
	n, err := io.Copy(io.Discard, c.r)
	if n > 0 {
		err = errors.New("there are more answers")
	}
	return time.Since(began), err
}

const (
	postJSON = "POST %s HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
	sized    = "Content-Length: 5\r\n\r\n"
	chunks   = "Transfer-Encoding: chunked\r\n\r\n"
)

func post(path, rest string) string { return strings.Replace(postJSON, "%s", path, 1) + rest }

// A refused request is answered at once, whether its body arrives or not, and the
// connection ends. An accepted one is answered within the stall timeout.
func TestUnfinishedRequests(t *testing.T) {
	grpcWeb := "POST /Secret HTTP/1.1\r\nHost: a\r\nContent-Type: application/grpc-web\r\n"
	stream := "POST /Numbers/Nothing HTTP/1.1\r\nHost: a\r\nContent-Type: application/connect+json\r\n"
	for name, c := range map[string]struct {
		request string
		status  int
		within  time.Duration
	}{
		"no method":           {post("/No/Method", sized), 404, 0},
		"no method, chunked":  {post("/No/Method", chunks), 404, 0},
		"half a body":         {post("/No/Method", sized+"abc"), 404, 0},
		"large":               {post("/No/Method", "Content-Length: 1000000000\r\n\r\n"), 404, 0},
		"no credentials":      {post("/Secret", sized), 401, 0},
		"credentials chunked": {post("/Secret", chunks), 401, 0},
		"grpc-web":            {grpcWeb + sized, 200, 0},
		"stream":              {stream + chunks, 200, 0},
		"another method":      {strings.Replace(post("/Len", sized), "POST", "PUT", 1), 405, 0},
		"another type":        {strings.Replace(post("/Len", sized), "json", "xml", 1), 415, 0},
		"GET with a body":     {strings.Replace(post("/Len", sized), "POST", "GET", 1), 400, 0},
		"GET with chunks":     {strings.Replace(post("/Len", chunks), "POST", "GET", 1), 400, 0},
		"not by GET":          {strings.Replace(post("/Text/Len", sized), "POST", "GET", 1), 405, 0},
		"GET of no method":    {strings.Replace(post("/No/Method", chunks), "POST", "GET", 1), 404, 0},
		"GET of a secret":     {strings.Replace(post("/Secret", sized), "POST", "GET", 1), 401, 0},
		"two slashes":         {post("//Len", sized), 400, 0},
		"accepted":            {post("/Len", sized), 504, stall},
		"accepted, chunked":   {post("/Len", chunks), 504, stall},
		"accepted, a part":    {post("/Len", sized+"\"a"), 504, stall},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newHostileTest(t)
				conn := w.raw(c.request)
				status, text, took, err := conn.answer()
				if err != nil || status != c.status || took != c.within {
					t.Errorf("%d %s after %v, %v; want %d after %v", status, text, took, err, c.status, c.within)
				}
				if status == 504 && !strings.Contains(text, "WithStallTimeout") {
					t.Errorf("the answer does not say which limit it was: %s", text)
				}
				if took, err := conn.closedAfter(); err != nil || took > time.Second {
					t.Errorf("closed after %v: %v", took, err)
				}
			})
		})
	}
}

// A refusal does not end the connection if the whole request has arrived: the next request
// is answered.
func TestRefusalKeepsConnection(t *testing.T) {
	w := newHostileTest(t)
	for _, request := range []string{
		post("/No/Method", sized+"\"aaa\""),
		post("/No/Method", chunks+"3\r\n\"a\"\r\n0\r\n\r\n"),
		post("/Secret", sized+"\"aaa\""),
	} {
		conn := w.raw(request + post("/Len", sized+"\"abc\""))
		if _, _, _, err := conn.answer(); err != nil {
			t.Error(err)
		}
		if status, text, _, err := conn.answer(); err != nil || status != 200 || text != "3" {
			t.Errorf("%.40q: then %d %s, %v", request, status, text, err)
		}
		w.must(conn.Close())
	}
}

// A stream that ends before all of its messages have arrived gets a complete response. The
// connection stays open if the rest of the request has arrived, else the response announces
// its end.
func TestStreamEndsEarly(t *testing.T) {
	const message, last = "8\r\n\x00\x00\x00\x00\x03\"7\"\r\n", "0\r\n\r\n"
	stream := strings.Replace(post("/Numbers/First", chunks), "json", "connect+json", 1)
	synctest.Test(t, func(t *testing.T) {
		w := newHostileTest(t)
		w.must(server.HandleStream(w.srv, "Numbers.First", func(_ context.Context, s *tandem.Stream[number, number]) error {
			first, err := s.Recv()
			if err != nil {
				return err
			}
			return s.Send(first)
		}))
		for rest, closes := range map[string]bool{message + last: false, message: true, "": true} {
			conn := w.raw(stream + message + rest)
			res, err := http.ReadResponse(conn.r, nil)
			w.must(err)
			body, err := io.ReadAll(res.Body)
			w.must(res.Body.Close())
			if err != nil || !strings.Contains(string(body), "7") || res.Close != closes {
				t.Errorf("behind the first message %.5q: %q, %v, closes %v", rest, body, err, res.Close)
			}
			if !closes {
				_, err := io.WriteString(conn, post("/Len", sized+"\"abc\""))
				w.must(err)
				if status, text, _, err := conn.answer(); err != nil || status != 200 || text != "3" {
					t.Errorf("the next request: %d %s, %v", status, text, err)
				}
			} else if took, err := conn.closedAfter(); err != nil || took > 2*time.Second {
				t.Errorf("closed after %v: %v", took, err)
			}
			w.must(conn.Close())
		}
	})
}

// A header must arrive within the stall timeout, also that of the second request.
func TestUnfinishedHeader(t *testing.T) {
	for name, request := range map[string]string{
		"first":            "POST /Len HTTP/1.1\r\nHost: a\r\n",
		"second":           post("/Len", sized+"\"abc\"") + "POST /Len HTTP/1.1\r\n",
		"second, a byte":   post("/Len", sized+"\"abc\"") + "P",
		"HTTP/2, settings": http2Preface[:30],
		"HTTP/2, a head":   http2Preface + "\x00\x00\x08",
		"HTTP/2, a frame":  http2Preface + "\x00\x00\x08\x06\x00\x00\x00\x00\x00abc",
		"HTTP/2, a header": http2Preface + "\x00\x00\x01\x01\x00\x00\x00\x00\x01\x83",
		"HTTP/2's":         "PRI * HTTP/2.0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newHostileTest(t)
				conn := w.raw(request)
				began := time.Now()
				_, err := io.Copy(io.Discard, conn.r)
				if took := time.Since(began); err != nil || took > stall+time.Second {
					t.Errorf("closed after %v: %v", took, err)
				}
			})
		})
	}
}

const http2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + "\x00\x00\x00\x04\x00\x00\x00\x00\x00"

// Connections without a running call do not delay Shutdown.
func TestShutdownWaitsForCallsOnly(t *testing.T) {
	const headers = "\x00\x00\x01\x01\x00\x00\x00\x00\x01\x83" // the header is not complete
	for name, request := range map[string]string{
		"refused":             post("/No/Method", sized),
		"accepted":            post("/Len", sized),
		"a byte":              "P",
		"half a header":       "POST /Len HTTP/1.1\r\nHost: a\r\n",
		"half of the second":  post("/Len", sized+"\"abc\"") + "POST /Len HTTP/1.1\r\n",
		"idle":                post("/Len", sized+"\"abc\""),
		"half a preface":      "PRI * HT",
		"preface":             "PRI * HTTP/2.0\r\n\r\n",
		"HTTP/2, idle":        http2Preface,
		"HTTP/2, half a head": http2Preface + headers,
		"HTTP/2, half":        http2Preface + "\x00\x00\x08\x06",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newHostileTest(t)
				conn := w.raw(request)
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					_, _ = io.Copy(io.Discard, conn.r)
				}()
				synctest.Wait()
				began := time.Now()
				w.must(w.srv.Shutdown(t.Context()))
				if took := time.Since(began); took > 3*time.Second {
					t.Errorf("Shutdown took %v", took)
				}
				_ = conn.Close()
				<-ended
			})
		})
	}
}

// Two thousand connections with unfinished requests are closed after the stall timeout, and
// do not affect others.
func TestManyUnfinishedRequests(t *testing.T) {
	const connections = 2000
	for name, request := range map[string]string{"refused": post("/No/Method", sized), "accepted": post("/Len", sized)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newHostileTest(t)
				w.do(w.h1, "POST /Len", asJSON, `"abc"`)
				before, heap := usage()
				list := make([]*raw, connections)
				for i := range list {
					list[i] = w.raw(request)
				}
				synctest.Wait()
				most, peak := usage()
				if a := w.do(w.h1, "POST /Len", asJSON, `"abc"`); a.StatusCode != http.StatusOK {
					t.Errorf("an honest call: %d %s", a.StatusCode, a.Body)
				}
				time.Sleep(stall + 2*time.Second)
				after, end := usage()
				t.Logf("goroutines %d, %d, %d; heap and stacks %d, %d, %d MiB", before, most, after, heap, peak, end)
				if after > before+72 { // some goroutines wait for the next calls
					t.Errorf("%d goroutines, %d before", after, before)
				}
				for _, c := range list {
					w.must(c.Close())
				}
			})
		})
	}
}

// usage returns the number of goroutines, and the memory in use in MiB.
func usage() (goroutines int, memory uint64) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return runtime.NumGoroutine(), (m.HeapInuse + m.StackInuse) >> 20
}

// A message of a stream that has begun must arrive within the stall timeout. Between
// messages a client may be silent.
func TestUnfinishedMessage(t *testing.T) {
	for _, version := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(version, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newHostileTest(t)
				client := w.h1
				if version == "HTTP/2.0" {
					client = w.h2
				}
				client.Timeout = 0
				body, messages := io.Pipe()
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://tandem.test/Numbers/Sum", body)
				w.must(err)
				req.Header.Set("Content-Type", "application/connect+json")
				ended := make(chan time.Duration, 1)
				began := time.Now()
				go func() {
					res, err := client.Do(req)
					if err == nil {
						_, err = io.Copy(io.Discard, res.Body)
						_ = res.Body.Close()
					}
					_ = err // over HTTP/1 the client may fail before it has sent everything
					ended <- time.Since(began)
				}()
				const message = "\x00\x00\x00\x00\x03\"7\""
				_, err = io.WriteString(messages, message)
				w.must(err)
				time.Sleep(time.Minute)
				_, err = io.WriteString(messages, message)
				w.must(err)
				_, err = io.WriteString(messages, message[:6])
				w.must(err)
				if took := <-ended; took < time.Minute+stall || took > time.Minute+stall+time.Second {
					t.Errorf("the stream ended after %v", took)
				}
				_ = messages.Close()
			})
		})
	}
}
