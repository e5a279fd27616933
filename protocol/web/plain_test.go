package web_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
)

const (
	events = "text/event-stream"
	lines  = "application/x-ndjson"
)

// countdown is a stream in which the server sends several messages: From, and so on.
type countdown struct {
	From int
	Fail string
}

func count(_ context.Context, s *tandem.Stream[countdown, int]) error {
	c, err := s.Recv()
	if err != nil {
		return err
	}
	for i := c.From; i > 0; i-- {
		if err := s.Send(&i); err != nil {
			return err
		}
	}
	if c.Fail != "" {
		e := &tandem.Error{Code: tandem.OutOfRange, Message: c.Fail}
		return e.WithDetail("google.protobuf.Int64Value", []byte{8, 7})
	}
	return nil
}

// add is a stream in which the client sends several messages, and the server their sum.
func add(ctx context.Context, s *tandem.Stream[int, int]) error {
	total := 0
	for n, err := range s.All() {
		if err != nil {
			return err
		}
		total += *n
	}
	tandem.FromContext(ctx).Trailer = tandem.Metadata{"tail": {"t"}}
	web.Header(ctx).Set("Head", "h")
	return s.Send(&total)
}

// running is a stream in which both send: each number is answered with the sum.
func running(_ context.Context, s *tandem.Stream[int, int]) error {
	total := 0
	for n, err := range s.All() {
		if err != nil {
			return err
		}
		total += *n
		if err := s.Send(&total); err != nil {
			return err
		}
	}
	return nil
}

func newPlainTest(t *testing.T, opts ...server.Option) *webTest {
	w := newWebTest(t, web.New(), opts...)
	w.must(server.HandleStream(w.srv, "Numbers.Count", count, server.MethodSafe()))
	w.must(server.HandleStream(w.srv, "Numbers.Add", add))
	w.must(w.srv.RegisterFunc("Len", func(s string) int { return len(s) }))
	w.must(server.HandleStream(w.srv, "Numbers.Running", running))
	w.must(server.HandleStream(w.srv, "Numbers.Sum", sum))
	w.must(server.HandleStream(w.srv, "Raw", func(_ context.Context, s *tandem.Stream[json.RawMessage, json.RawMessage]) error {
		m, err := s.Recv()
		return errors.Join(err, s.Send(m))
	}))
	return w
}

// ask makes a request with an Accept header.
func (w *webTest) ask(c *http.Client, what, contentType, accept, body string) (*http.Response, error) {
	method, path, _ := strings.Cut(what, " ")
	req, err := http.NewRequestWithContext(w.Context(), method, "http://tandem.test"+path, strings.NewReader(body))
	w.must(err)
	if method == http.MethodGet {
		req.Body, req.ContentLength = http.NoBody, 0
	}
	for name, value := range map[string]string{"Content-Type": contentType, "Accept": accept} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	return c.Do(req)
}

func TestPlainStreams(t *testing.T) {
	w := newPlainTest(t)
	const anyBody = "any body"
	const failure = `{"code":"out_of_range","message":"no\nmore","details":[{"type":"google.protobuf.Int64Value","value":"CAc"}]}`
	for _, c := range []struct {
		what, contentType, accept, body string
		status                          int
		kind, want                      string
	}{
		{"POST /Numbers/Count", asJSON, lines, `{"From":2}`, 200, lines, "2\n1\n"},
		{"POST /Numbers/Count", asJSON, "application/jsonl", `{"From":2}`, 200, "application/jsonl", "2\n1\n"},
		{"POST /Numbers/Count", asJSON, "application/json, text/event-stream;q=0.5, application/x-ndjson; q=0.9", `{"From":1}`, 200, lines, "1\n"},
		{"POST /Numbers/Count", asJSON, events, `{"From":2}`, 200, events, "data: 2\n\ndata: 1\n\nevent: end\ndata: {}\n\n"},
		{"POST /Numbers/Count", asJSON, lines, `{"From":1,"Fail":"no\nmore"}`, 200, lines, "1\n{\"error\":" + failure + "}\n"},
		{"POST /Numbers/Count", asJSON, events, `{"From":1,"Fail":"no\nmore"}`, 200, events, "data: 1\n\nevent: error\ndata: " + failure + "\n\n"},
		{"POST /Numbers/Count", asJSON, events, `{"Fail":"no\nmore"}`, 400, asJSON, strings.TrimSuffix(failure, "}]}") + `,"debug":"7"}]}`},
		{"POST /Numbers/Count", asJSON, lines, ``, 400, asJSON, `{"code":"invalid_argument","message":"there is no JSON"}`},
		{"POST /Numbers/Count", asJSON, lines, `{"From":`, 400, asJSON, `{"code":"invalid_argument","message":"codec json: decoding into *web_test.countdown: unexpected end of JSON input"}`},
		{"POST /Numbers/Count", lines, "*/*", "\n\r\n{\"From\":2}\nrubbish", 200, lines, "2\n1\n"},
		{"GET /Numbers/Count?From=2", "", events, "", 200, events, "data: 2\n\ndata: 1\n\nevent: end\ndata: {}\n\n"},
		{"GET /Numbers/Count?message=" + url.QueryEscape(`{"From":2}`), "", lines, "", 200, lines, "2\n1\n"},
		{"GET /Numbers/Count?base64=1&message=eyJGcm9tIjoxfQ", "", lines, "", 200, lines, "1\n"},
		{"GET /Numbers/Count?base64=1&message=...", "", lines, "", 400, asJSON, `{"code":"invalid_argument","message":"message of the query: illegal base64 data at input byte 0"}`},
		{"GET /Numbers/Count?Rrom=2", "", events, "", 400, asJSON, `{"code":"invalid_argument","message":"field \"Rrom\" of the query: the argument has no such field"}`},
		{"GET /Numbers/Count?compression=br&message={}", "", events, "", 501, asJSON, `{"code":"unimplemented","message":"compression \"br\" of the query: gzip and identity are understood"}`},

		{"POST /Numbers/Add", lines, asJSON, "1\n2\n3", 200, asJSON, "6"},
		{"POST /Numbers/Add", lines, asJSON, "", 200, asJSON, "0"},
		{"POST /Numbers/Add", lines, "", "1\n2\n", 200, lines, "3\n"},
		{"POST /Numbers/Add", lines, asJSON, "1\nx\n3", 400, asJSON, `{"code":"invalid_argument","message":"codec json: decoding into *int: invalid character 'x' looking for beginning of value"}`},
		{"POST /Numbers/Running", lines, "", "1\n2\n3\n", 200, lines, "1\n3\n6\n"},
		{"POST /Numbers/Running", "application/jsonl; charset=utf-8", events, "1\n2\n", 200, events, "data: 1\n\ndata: 3\n\nevent: end\ndata: {}\n\n"},
		{"POST /Numbers/Running", lines, asJSON, "1\n2\n3\n", 400, asJSON, `{"code":"invalid_argument","message":"the method sends more than one message: send Accept: text/event-stream or application/x-ndjson"}`},
		{"POST /Numbers/Running", lines, asJSON, "", 500, asJSON, `{"code":"internal","message":"the method has sent no message"}`},
		{"POST /Numbers/Running", lines, lines, "", 200, lines, ""},
		{"POST /Numbers/Sum", lines, lines, "\"1\"\n2", 200, lines, "\"1\"\n\"3\"\n" + `{"error":{"code":"out_of_range","message":"no more after 3"}}` + "\n"},
		{"POST /Raw", asJSON, lines, "[1,\r\n \"a\\n\"]", 200, lines, "[1,\"a\\n\"]\n"},
		{"POST /Raw", asJSON, events, "[1,\n2]", 200, events, "data: [1,2]\n\nevent: end\ndata: {}\n\n"},

		{"POST /Len", asJSON, "application/json, text/event-stream", `"four"`, 200, asJSON, "4"},
		{"POST /Len", lines, lines, `"four"`, 415, "application/problem+json", anyBody},
		{"POST /Numbers/Count", asJSON, "*/*", `{"From":2}`, 415, "application/problem+json", anyBody},
		{"POST /Numbers/Count", "application/proto", events, ``, 415, "application/problem+json", anyBody},
		{"POST /Numbers/Count", "application/x-ndjson; charset=latin1", events, ``, 415, "application/problem+json", anyBody},
		{"POST /Numbers/Cound", lines, lines, ``, 404, asJSON, `{"code":"unimplemented","message":"no method at \"/Numbers/Cound\""}`},
		{"GET /Numbers/Running", "", events, "", 405, "application/problem+json", anyBody},
		{"PUT /Numbers/Running", lines, events, "", 405, "application/problem+json", anyBody},
	} {
		for name, client := range map[string]*http.Client{"HTTP/1.1": w.h1, "HTTP/2.0": w.h2} {
			res, err := w.ask(client, c.what, c.contentType, c.accept, c.body)
			w.must(err)
			b, err := io.ReadAll(res.Body)
			w.must(errors.Join(err, res.Body.Close()))
			if res.StatusCode != c.status || res.Header.Get("Content-Type") != c.kind || c.want != anyBody && c.want != string(b) {
				t.Errorf("%s %s %q, %q, %q: %d %s %q, want %d %s %q", name, c.what, c.body, c.contentType, c.accept, res.StatusCode, res.Header.Get("Content-Type"), b, c.status, c.kind, c.want)
			}
		}
	}
}

// A caller that gets one message gets the trailer in the header, as with a unary call; others
// after the last message, as they do an error's code.
func TestPlainTrailers(t *testing.T) {
	w := newPlainTest(t)
	for name, client := range map[string]*http.Client{"HTTP/1.1": w.h1, "HTTP/2.0": w.h2} {
		for accept, get := range map[string]func(*http.Response) string{
			asJSON: func(r *http.Response) string { return r.Header.Get("Trailer-Tail") },
			lines:  func(r *http.Response) string { return r.Trailer.Get("Tail") },
			events: func(r *http.Response) string { return r.Trailer.Get("Tail") },
		} {
			res, err := w.ask(client, "POST /Numbers/Add", lines, accept, "1")
			w.must(err)
			_, err = io.Copy(io.Discard, res.Body)
			w.must(errors.Join(err, res.Body.Close()))
			if get(res) != "t" || res.Header.Get("Head") != "h" {
				t.Errorf("%s %s: %v, %v", name, accept, res.Header, res.Trailer)
			}
		}
		res, err := w.ask(client, "POST /Numbers/Count", asJSON, lines, `{"From":1,"Fail":"no"}`)
		w.must(err)
		_, err = io.Copy(io.Discard, res.Body)
		w.must(errors.Join(err, res.Body.Close()))
		if code := res.Trailer.Get("Tandem-Code"); code != "out_of_range" {
			t.Errorf("%s: code %q", name, code)
		}
	}
}

// An interceptor refuses a stream before its body is read, with an HTTP status.
func TestPlainStreamIsRefused(t *testing.T) {
	w := newPlainTest(t, server.WithInterceptors(func(next tandem.Func) tandem.Func {
		return func(ctx context.Context, call *tandem.Call) error {
			if call.Metadata.Get("authorization") == "" {
				return tandem.Errorf(tandem.Unauthenticated, "%s is for friends", call.Method)
			}
			return next(ctx, call)
		}
	}))
	for name, client := range map[string]*http.Client{"HTTP/1.1": w.h1, "HTTP/2.0": w.h2} {
		for _, contentType := range []string{asJSON, lines} {
			res, err := w.ask(client, "POST /Numbers/Running", contentType, events, "1\n")
			w.must(err)
			b, err := io.ReadAll(res.Body)
			w.must(errors.Join(err, res.Body.Close()))
			if res.StatusCode != http.StatusUnauthorized || string(b) != `{"code":"unauthenticated","message":"Numbers.Running is for friends"}` {
				t.Errorf("%s %s: %d %s", name, contentType, res.StatusCode, b)
			}
		}
	}
}

// Both sides send in turn, over HTTP/1.1 as well.
func TestPlainStreamInTurn(t *testing.T) {
	w := newPlainTest(t)
	for name, client := range map[string]*http.Client{"HTTP/1.1": w.h1, "HTTP/2.0": w.h2} {
		t.Run(name, func(t *testing.T) {
			body, send := io.Pipe()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://tandem.test/Numbers/Running", body)
			w.must(err)
			req.Header.Set("Content-Type", lines)
			go func() { _, _ = send.Write([]byte("1\n")) }()
			res, err := client.Do(req)
			w.must(err)
			in := bufio.NewScanner(res.Body)
			for i := 1; i < 5; i++ {
				if !in.Scan() || in.Text() != fmt.Sprint(i*(i+1)/2) {
					t.Fatalf("%q, %v", in.Text(), in.Err())
				}
				_, err := fmt.Fprintf(send, "%d\n", i+1)
				w.must(err)
			}
			w.must(send.Close())
			if !in.Scan() || in.Text() != "15" || in.Scan() {
				t.Errorf("%q, %v", in.Text(), in.Err())
			}
			w.must(res.Body.Close())
		})
	}
}

// A line may have as many bytes as a message of the method.
func TestPlainLineLimit(t *testing.T) {
	w := newWebTest(t, web.New(), server.WithMaxMessage(1000), server.WithMemory(1<<20))
	w.must(server.HandleStream(w.srv, "Texts.Len", func(_ context.Context, s *tandem.Stream[string, int]) error {
		for text, err := range s.All() {
			if err != nil {
				return err
			}
			n := len(*text)
			if err := s.Send(&n); err != nil {
				return err
			}
		}
		return nil
	}))
	long := strings.Repeat("a", 998)
	for name, client := range map[string]*http.Client{"HTTP/1.1": w.h1, "HTTP/2.0": w.h2} {
		for _, end := range []string{"", "\n", "\n\"\"\n"} {
			res, err := w.ask(client, "POST /Texts/Len", lines, lines, strings.Repeat("\""+long+"\"\n", 3)+"\""+long+"a\""+end)
			w.must(err)
			b, err := io.ReadAll(res.Body)
			w.must(errors.Join(err, res.Body.Close()))
			const want = `{"error":{"code":"resource_exhausted","message":"message is larger than the 1000 bytes that the method takes"}}`
			if string(b) != strings.Repeat("998\n", 3)+want+"\n" {
				t.Errorf("%s: %d %s", name, res.StatusCode, b)
			}
		}
		res, err := w.ask(client, "POST /Texts/Len", asJSON, lines, "\""+long+"aa\"")
		w.must(err)
		w.must(res.Body.Close())
		if res.StatusCode != http.StatusTooManyRequests {
			t.Errorf("%s: a message that is too large: %d", name, res.StatusCode)
		}
	}
}

// The stream ends at the client's deadline, and when the client leaves; comments keep an idle
// connection in use.
func TestPlainStreamEnds(t *testing.T) {
	for _, c := range []struct {
		name, accept, timeout string
		leave                 time.Duration
		want                  string
		took                  time.Duration
	}{
		{"deadline", events, "40000", time.Hour, ":\n\n:\n\nevent: error\ndata: {\"code\":\"deadline_exceeded\",\"message\":\"context deadline exceeded\"}\n\n", 40 * time.Second},
		{"deadline of lines", lines, "40000", time.Hour, `{"code":"deadline_exceeded","message":"context deadline exceeded"}`, 40 * time.Second},
		{"leave", events, "", 20 * time.Second, ":\n\n", 20 * time.Second},
	} {
		for _, version := range []string{"HTTP/1.1", "HTTP/2.0"} {
			t.Run(c.name+" "+version, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWebTest(t, web.New())
					ended := make(chan time.Duration, 1)
					began := time.Now()
					w.must(server.HandleStream(w.srv, "Wait", func(ctx context.Context, s *tandem.Stream[string, string]) error {
						if _, err := s.Recv(); err != nil {
							return err
						}
						<-s.Context().Done()
						ended <- time.Since(began)
						return tandem.AsError(s.Context().Err())
					}))
					client := map[string]*http.Client{"HTTP/1.1": w.h1, "HTTP/2.0": w.h2}[version]
					ctx, cancel := context.WithTimeout(t.Context(), c.leave)
					defer cancel()
					req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://tandem.test/Wait", strings.NewReader(`""`))
					w.must(err)
					req.Header = http.Header{"Content-Type": {asJSON}, "Accept": {c.accept}, "Connect-Timeout-Ms": {c.timeout}}
					res, err := client.Do(req)
					w.must(err)
					b, _ := io.ReadAll(res.Body) // it fails if the client leaves
					w.must(res.Body.Close())
					if took := <-ended; took != c.took || string(b) != c.want {
						t.Errorf("after %v: %q", took, b)
					}
				})
			})
		}
	}
}

// A line that has begun must arrive within the stall timeout; between lines there is no limit.
func TestPlainLineStalls(t *testing.T) {
	for _, version := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(version, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newPlainTest(t, server.WithStallTimeout(stall))
				client := map[string]*http.Client{"HTTP/1.1": w.h1, "HTTP/2.0": w.h2}[version]
				body, send := io.Pipe()
				go func() {
					for _, part := range []string{"1\n", "2", "\n3"} {
						_, _ = send.Write([]byte(part))
						time.Sleep(stall / 2)
						if strings.HasSuffix(part, "\n") {
							time.Sleep(stall)
						}
					}
				}()
				began := time.Now()
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://tandem.test/Numbers/Running", body)
				w.must(err)
				req.Header = http.Header{"Content-Type": {lines}}
				res, err := client.Do(req)
				w.must(err)
				b, err := io.ReadAll(res.Body)
				w.must(errors.Join(err, res.Body.Close(), send.Close()))
				if took := time.Since(began); took != 3*stall || !strings.HasPrefix(string(b), "1\n3\n{\"error\":{\"code\":\"deadline_exceeded\"") {
					t.Errorf("after %v: %q", took, b)
				}
			})
		})
	}
}
