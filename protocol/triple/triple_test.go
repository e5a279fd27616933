package triple_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/protocol/triple"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// patience is the time limit for events that a test waits for.
const patience = time.Minute

// consumer returns an HTTP/2 client, on an in-memory network with its server.
func consumer(t *testing.T, opts ...server.Option) *http.Client {
	t.Helper()
	mem := transport.NewMemory()
	srv := server.New(append(opts, server.WithProtocols(web.New(triple.Interface("com.shop.Stock"))))...)
	if err := errors.Join(
		srv.RegisterFunc("com.shop.Stock.hello", hello), srv.RegisterFunc("com.shop.Stock.Two", func(int, int) (int, int) { return 1, 2 }),
		srv.RegisterFunc("com.shop.Stock.Left", left), srv.RegisterFunc("com.shop.Stock.Same", func(v any) any { return v }),
		srv.RegisterFunc("com.shop.Stock.Long", func() []byte { return make([]byte, 300<<10) }),
		server.HandleStream(srv, "com.shop.Stock.Stream", func(context.Context, *tandem.Stream[int, int]) error { return nil }),
	); err != nil {
		t.Fatal(err)
	}
	ln, err := mem.Listen(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	tr := &http.Transport{
		Protocols:   new(http.Protocols),
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return mem.Dial(ctx, "a") },
	}
	tr.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		_ = srv.Close()
		if err := <-served; !errors.Is(err, server.ErrServerClosed) {
			t.Error(err)
		}
	})
	return &http.Client{Transport: tr, Timeout: patience}
}

func hello(ctx context.Context, name string) (string, error) {
	call := tandem.FromContext(ctx)
	call.Trailer = tandem.Metadata{"answer-bin": {"\xff"}, "grpc-status": {"99"}, "answer": {call.Metadata.Get("question"), call.Peer.Protocol}}
	if name == "" {
		return "", tandem.Errorf(tandem.NotFound, "no name: 100 %%\n")
	}
	return "hello " + name, nil
}

// left reports whether ctx has a deadline within a minute.
func left(ctx context.Context) bool {
	at, ok := ctx.Deadline()
	return ok && time.Until(at) < time.Minute
}

// wrapped returns a request as Dubbo sends it, with encoded arguments.
func wrapped(serialization string, args ...string) string {
	b := "\x0a" + string(rune(len(serialization))) + serialization
	for _, arg := range args {
		b += "\x12" + string(rune(len(arg))) + arg
	}
	return b + "\x1a\x01S" // a type
}

func framed(flag byte, message string) string {
	return string(binary.BigEndian.AppendUint32([]byte{flag}, uint32(len(message)))) + message
}

func zipped(s string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, s)
	_ = z.Close()
	return b.String()
}

const kind = "application/grpc+proto"

// answer is a response that has been read.
type answer struct {
	status          int
	header, trailer http.Header
}

func post(t *testing.T, c *http.Client, method, contentType, body string, header ...string) (answer, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://tandem.test/com.shop.Stock/"+method, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, res.Trailer}, string(b)
}

const (
	helloAnn = "\x0a\x08hessian4\x12\x0cS\x00\x09hello ann"
	yes      = "\x0a\x08hessian4\x12\x01T"
)

func TestCalls(t *testing.T) {
	c := consumer(t)
	ann := wrapped("hessian4", "\x03ann")
	for name, body := range map[string]string{"plain": framed(0, ann), "gzip": framed(1, zipped(ann))} {
		res, got := post(t, c, "hello", kind, body, "Grpc-Encoding", "gzip", "Question", "why")
		if got != framed(0, helloAnn) || res.header.Get("Content-Type") != kind {
			t.Errorf("%s: %q %v", name, got, res.header)
		}
		if h := res.trailer; h.Get("Grpc-Status") != "0" || h.Get("Answer-Bin") != "/w" || strings.Join(h["Answer"], " ") != "why triple" {
			t.Errorf("%s: %v", name, h)
		}
	}
	for header, want := range map[string]string{"5S": yes, "99999999H": "\x0a\x08hessian4\x12\x01F", "5x": "\x0a\x08hessian4\x12\x01F"} {
		if _, got := post(t, c, "left", kind, framed(0, wrapped("hessian4")), "Grpc-Timeout", header); got != framed(0, want) {
			t.Errorf("%s: %q, want %q", header, got, want)
		}
	}
}

// doubling is a list of lists, each of which but the first contains the one before twice.
const doubling = "X\x9a\x78" + "\x7aQ\x91Q\x91" + "\x7aQ\x92Q\x92" + "\x7aQ\x93Q\x93" + "\x7aQ\x94Q\x94" +
	"\x7aQ\x95Q\x95" + "\x7aQ\x96Q\x96" + "\x7aQ\x97Q\x97" + "\x7aQ\x98Q\x98" + "\x7aQ\x99Q\x99"

func TestRefusals(t *testing.T) {
	c := consumer(t, server.WithMaxMessage(1000))
	for _, want := range []struct {
		method, body, status, message string
	}{
		{"hello", framed(0, wrapped("hessian4", "\x00")), "5", "no name: 100 %25%0A"},
		{"none", "", "12", `no method at "/com.shop.Stock/none"`},
		{"stream", "", "12", "is a stream"},
		{"two", framed(0, wrapped("hessian4", "\x90", "\x90")), "12", "it has 2 results"},
		{"two", framed(0, wrapped("hessian4", "\x90")), "3", "there are 1 arguments, 2 are wanted"},
		{"hello", framed(0, wrapped("hessian4", "\x90")), "3", "argument 1: at byte 1: the number 0 does not fit into string"},
		{"hello", framed(0, wrapped("fastjson2", "\x90")), "12", `serialization "fastjson2", want hessian2`},
		{"hello", framed(0, ""), "12", `serialization "", want hessian2`},
		{"hello", framed(0, "\x0a\x7f"), "3", "not Triple's wrapper"},
		{"hello", framed(0, "\x12"), "3", "not Triple's wrapper"},
		{"hello", framed(0, "\x80"), "3", "not Triple's wrapper"},
		{"hello", framed(0, strings.Repeat("\x12\x00", 300)), "3", "more arguments than"},
		{"hello", "", "3", "could not be read: EOF"},
		{"hello", "\x00\x00\x00\x00\x05abcd", "3", "could not be read: unexpected EOF"},
		{"hello", "\x00\xff\xff\xff\xff", "8", "message has more than 1000 bytes"},
		{"same", framed(0, wrapped("hessian4", doubling)), "8", "the result has more than 1000 bytes"},
		{"hello", framed(1, "no gzip"), "3", "could not be read"},
		{"hello", framed(1, zipped(strings.Repeat("x", 1001))), "8", "message has more than 1000 bytes"},
	} {
		res, got := post(t, c, want.method, kind, want.body, "Grpc-Encoding", "gzip")
		if got != "" || res.header.Get("Grpc-Status") != want.status || !strings.Contains(res.header.Get("Grpc-Message"), want.message) {
			t.Errorf("%s %.30q: %q %v, want %s %s", want.method, want.body, got, res.header, want.status, want.message)
		}
	}
	if res, _ := post(t, c, "hello", kind, framed(1, "x"), "Grpc-Encoding", "bzip2"); res.header.Get("Grpc-Message") != `arguments of com.shop.Stock.hello: compressed by "bzip2", want gzip` {
		t.Error(res.header)
	}
	if res, _ := post(t, c, "hello", "application/json", "{}"); res.status != http.StatusUnsupportedMediaType {
		t.Error(res.status)
	}
}

// TestInterceptorsFirst refuses a call whose request never arrives.
func TestInterceptorsFirst(t *testing.T) {
	c := consumer(t, server.WithInterceptors(func(tandem.Func) tandem.Func {
		return func(context.Context, *tandem.Call) error {
			return tandem.Errorf(tandem.Unauthenticated, "who are you?")
		}
	}))
	body, w := io.Pipe()
	defer w.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://tandem.test/com.shop.Stock/hello", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", kind)
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.Header.Get("Grpc-Status") != "16" {
		t.Error(res.Header)
	}
}

// A response that the consumer does not receive is discarded after the stall timeout; a
// large one gets more time.
func TestAnswersAreNotHeld(t *testing.T) {
	for name, c := range map[string]struct {
		method string
		window int // bytes that the consumer accepts at first
		pause  time.Duration
		reset  bool
	}{
		"small":       {"left", 10, 1100 * time.Millisecond, true},
		"small, soon": {"left", 10, 900 * time.Millisecond, false},
		"large":       {"long", 10 << 10, 2100 * time.Millisecond, true},
		"large, soon": {"long", 10 << 10, 1900 * time.Millisecond, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := consumer(t, server.WithStallTimeout(time.Second))
				client.Transport.(*http.Transport).HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: c.window}
				body := strings.NewReader(framed(0, wrapped("hessian4")))
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://tandem.test/com.shop.Stock/"+c.method, body)
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Content-Type", kind)
				res, err := client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				time.Sleep(c.pause)
				if b, err := io.ReadAll(res.Body); (err != nil) != c.reset {
					t.Errorf("%d bytes, %v", len(b), err)
				}
			})
		})
	}
}

// slow is a part of a body that arrives late.
type slow struct {
	rest io.Reader
	over atomic.Bool
}

func (s *slow) Read(p []byte) (int, error) {
	time.Sleep(20 * time.Millisecond) // so that a response that does not wait for it comes first
	n, err := s.rest.Read(p)
	if err != nil {
		s.over.Store(true)
	}
	return n, err
}

// A message that is too large is read before it is refused: Dubbo's consumers take an
// earlier response for a connection error.
func TestTooLargeIsReadFirst(t *testing.T) {
	c := consumer(t, server.WithMaxMessage(1000))
	rest := &slow{rest: strings.NewReader(strings.Repeat("x", 1000))}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://tandem.test/com.shop.Stock/hello",
		io.MultiReader(strings.NewReader("\x00\x00\x00\x05\xdc"+strings.Repeat("x", 500)), rest))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", kind)
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.Header.Get("Grpc-Status") != "8" || !rest.over.Load() {
		t.Errorf("%v, the request is read: %v", res.Header, rest.over.Load())
	}
}

// Requests on one HTTP/2 connection of which not all find memory at once do not keep each other's
// data from arriving: those for which there is room are read, the others are refused at once.
func TestRequestsThatWait(t *testing.T) {
	const size, memory = 128 << 10, 16 << 20
	for requests, memory := range map[int]int64{50: memory, 100: memory / 4} {
		synctest.Test(t, func(t *testing.T) {
			c := consumer(t, server.WithMemory(memory))
			c.Transport.(*http.Transport).MaxConnsPerHost = 1 //nolint:forcetypeassert // it is consumer's
			message := framed(0, strings.Repeat("\x80", size))
			began := time.Now()
			var wg sync.WaitGroup
			var read, refused atomic.Int64
			for range requests {
				wg.Go(func() {
					req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://a/com.shop.Stock/hello", strings.NewReader(message))
					if err != nil {
						t.Error(err)
						return
					}
					req.Header.Set("Content-Type", kind)
					res, err := c.Do(req)
					if err != nil {
						t.Error(err)
						return
					}
					_ = res.Body.Close()
					switch why := res.Header.Get("Grpc-Message"); {
					case strings.Contains(why, "not Triple's wrapper"):
						read.Add(1)
					case res.Header.Get("Grpc-Status") == "8":
						refused.Add(1)
					default:
						t.Errorf("%v", res.Header)
					}
				})
			}
			wg.Wait()
			if took := time.Since(began); took > 0 {
				t.Errorf("%d requests took %v: they have waited for each other's data", requests, took)
			}
			if read.Load() == 0 || requests == 50 && refused.Load() > 0 {
				t.Errorf("%d of %d are read, %d refused", read.Load(), requests, refused.Load())
			}
		})
	}
}
