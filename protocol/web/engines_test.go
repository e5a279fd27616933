package web_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// http2View is what a client has seen of a connection.
type http2View struct {
	streams map[uint32]*http2Answer
	pings   []string
	acks    int    // of its settings
	end     string // how the server ended the connection: an error's code, "leaves" or "closed"; empty if it did not
	burst   int    // after which it did
	closed  bool
	broken  string // what the server did wrong
}

// http2Answer is what a client has seen of a stream.
type http2Answer struct {
	interim []string
	status  string
	header  []string
	body    []byte
	trailer []string
	ended   bool
	reset   string
	last    int // the burst after which the server sent the last of it
}

func (a *http2Answer) String() string {
	end := "open"
	switch {
	case a.reset != "" && a.ended:
		end = "ended, then reset " + a.reset
	case a.reset != "":
		end = "reset " + a.reset
	case a.ended:
		end = "ended"
	}
	body := string(a.body)
	if len(body) > 2000 {
		body = fmt.Sprintf("%d bytes", len(body))
	}
	return fmt.Sprintf("%s%s %q %q %q %s", strings.Join(a.interim, ""), a.status, a.header, body, a.trailer, end)
}

// http2Client writes bursts and records what comes back.
type http2Client struct {
	conn   net.Conn
	mu     sync.Mutex
	view   http2View
	burst  int
	window int64            // the connection's
	first  int64            // the window that streams begin with
	more   map[uint32]int64 // what windows of streams have got and used
	frame  uint32           // the largest frame
	leaves bool             // it has seen enough
	done   chan struct{}
}

func newHTTP2Client(conn net.Conn) *http2Client {
	c := &http2Client{
		conn: conn, window: 65535, first: 65535, more: map[uint32]int64{}, frame: 16384, done: make(chan struct{}),
		view: http2View{streams: map[uint32]*http2Answer{}},
	}
	go c.read()
	return c
}

// play sends the bursts, each when the one before has had its effect.
func (c *http2Client) play(bursts []http2Burst) *http2View {
	for i, b := range bursts {
		c.mu.Lock()
		c.burst = i
		over := c.view.end != ""
		c.grant(b.bytes)
		c.mu.Unlock()
		if over {
			break
		}
		_, _ = c.conn.Write(b.bytes) // the reader notices the end
		synctest.Wait()
	}
	time.Sleep(3 * time.Second) // of the bubble: GOAWAY and the end of the connection may be a second apart
	synctest.Wait()
	c.mu.Lock()
	c.leaves = true // what its own end causes does not matter
	c.mu.Unlock()
	_ = c.conn.Close()
	<-c.done
	return &c.view
}

// grant notes the windows and settings in frames that will be sent.
func (c *http2Client) grant(b []byte) {
	b = bytes.TrimPrefix(b, []byte(http2.ClientPreface))
	for len(b) >= 9 {
		n := min(int(binary.BigEndian.Uint32(b)>>8), len(b)-9)
		kind, flags, stream, payload := http2.FrameType(b[3]), b[4], binary.BigEndian.Uint32(b[5:])&(1<<31-1), b[9:9+n]
		b = b[9+n:]
		switch {
		case kind == http2.FrameWindowUpdate && n == 4 && stream == 0:
			c.window += int64(binary.BigEndian.Uint32(payload) & (1<<31 - 1))
		case kind == http2.FrameWindowUpdate && n == 4:
			c.more[stream] += int64(binary.BigEndian.Uint32(payload) & (1<<31 - 1))
		case kind == http2.FrameSettings && flags&1 == 0:
			c.set(payload)
		}
	}
}

func (c *http2Client) set(payload []byte) {
	for ; len(payload) >= 6; payload = payload[6:] {
		value := binary.BigEndian.Uint32(payload[2:])
		switch http2.SettingID(binary.BigEndian.Uint16(payload)) { //nolint:exhaustive // others do not matter
		case http2.SettingInitialWindowSize:
			c.first = int64(value)
		case http2.SettingMaxFrameSize:
			c.frame = max(16384, min(value, 1<<24-1))
		}
	}
}

func (c *http2Client) read() {
	defer close(c.done)
	f := http2.NewFramer(io.Discard, c.conn)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	for c.take(f.ReadFrame()) {
	}
}

// take notes a frame, or the end of the connection.
func (c *http2Client) take(fr http2.Frame, err error) (more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.leaves:
	case err == nil:
		c.see(fr)
	default:
		c.view.closed = true
		c.over("closed")
		if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) && !errors.Is(err, io.ErrClosedPipe) {
			c.wrongf("%v", err)
		}
	}
	return err == nil
}

func (c *http2Client) wrongf(format string, args ...any) {
	if c.view.broken == "" {
		c.view.broken = fmt.Sprintf(format, args...)
	}
}

// over notes that the server has ended the connection.
func (c *http2Client) over(how string) {
	if c.view.end == "" {
		c.view.end, c.view.burst = how, c.burst
	}
}

// see notes a frame of the server.
func (c *http2Client) see(fr http2.Frame) {
	v, head := &c.view, fr.Header()
	if head.Length > c.frame {
		c.wrongf("a frame of %d bytes", head.Length)
	}
	switch f := fr.(type) {
	case *http2.GoAwayFrame:
		if f.ErrCode == http2.ErrCodeNo {
			c.over("leaves")
		} else {
			c.over(f.ErrCode.String())
		}
	case *http2.PingFrame:
		v.pings = append(v.pings, fmt.Sprintf("%s %v", f.Data[:], f.IsAck()))
	case *http2.SettingsFrame:
		if f.IsAck() {
			v.acks++
		}
	case *http2.WindowUpdateFrame:
	default:
		c.seeOfStream(fr)
	}
}

func (c *http2Client) seeOfStream(fr http2.Frame) {
	id := fr.Header().StreamID
	a := c.view.streams[id]
	if a == nil {
		a = &http2Answer{}
		c.view.streams[id] = a
	}
	if _, reset := fr.(*http2.RSTStreamFrame); !reset && (a.ended || a.reset != "") {
		c.wrongf("%v after the end of the stream", fr)
	}
	a.last = c.burst
	switch f := fr.(type) {
	case *http2.RSTStreamFrame:
		if a.reset == "" {
			a.reset = f.ErrCode.String()
		}
	case *http2.MetaHeadersFrame:
		a.seeHeader(f)
		a.ended = f.StreamEnded()
	case *http2.DataFrame:
		n := int64(f.Length)
		c.window -= n
		c.more[id] -= n
		if n > 0 && (c.window < 0 || c.first+c.more[id] < 0) {
			c.wrongf("more data than the windows of stream %d: %d, %d", id, c.window, c.first+c.more[id])
		}
		a.body = append(a.body, f.Data()...)
		a.ended = f.StreamEnded()
	default:
		c.wrongf("%v", fr)
	}
}

func (a *http2Answer) seeHeader(f *http2.MetaHeadersFrame) {
	var fields []string
	for _, field := range f.RegularFields() {
		if field.Name != "date" {
			fields = append(fields, field.Name+": "+field.Value)
		}
	}
	slices.Sort(fields)
	switch status := f.PseudoValue("status"); {
	case status != "" && status < "200":
		a.interim = append(a.interim, fmt.Sprintf("%s %q, ", status, fields))
	case status != "":
		a.status, a.header = status, fields
	default:
		a.trailer = append(a.trailer, fields...)
	}
}

// viewOf returns what a client sees of a server with an engine.
func viewOf(t *testing.T, own bool, bursts []http2Burst) *http2View {
	opts := []web.Option{web.WithMaxStreams(6), web.WithHandler("/plain/", plainHandlers)}
	if !own {
		opts = append(opts, web.WithNetHTTP2())
	}
	network := transport.NewMemory()
	ln, err := network.Listen(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	srv := server.New(server.WithProtocols(web.New(opts...)), server.WithLogger(slog.New(slog.DiscardHandler)))
	if err := registerText(srv); err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	conn, err := network.Dial(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	view := newHTTP2Client(conn).play(bursts)
	_ = srv.Close()
	if err := <-served; !errors.Is(err, server.ErrServerClosed) {
		t.Error(err)
	}
	return view
}

func registerText(srv *server.Server) error {
	return errors.Join(
		srv.RegisterFunc("Text.Echo", func(s string) string { return s }, server.MethodSafe()),
		srv.RegisterFunc("Text.Long", func(n int) string { return strings.Repeat("x", n) }),
		srv.RegisterFunc("Text.Fail", func(s string) (string, error) {
			return "", &tandem.Error{Code: tandem.FailedPrecondition, Message: s + "\n100 %", RetryAfter: time.Second}
		}),
		server.HandleStream(srv, "Text.Each", func(_ context.Context, s *tandem.Stream[string, string]) error {
			for {
				text, err := s.Recv()
				if errors.Is(err, io.EOF) {
					return nil
				}
				if err == nil {
					err = s.Send(text)
				}
				if err != nil {
					return err
				}
			}
		}),
	)
}

// plainHandlers answer requests that are no calls. Whatever they do does not depend on the time.
var plainHandlers = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	switch strings.TrimPrefix(r.URL.Path, "/plain/") {
	case "echo":
		b, err := io.ReadAll(r.Body)
		h.Set("X-Failed", fmt.Sprint(err != nil))
		_, _ = fmt.Fprintf(w, "%q %d %v", b, r.ContentLength, r.Trailer)
	case "early":
		_, _ = io.WriteString(w, "early")
	case "request":
		keys := slices.Sorted(maps.Keys(r.Header))
		_, _ = fmt.Fprintf(w, "%s %q %q %q %q %d %v %v", r.Method, r.URL, r.RequestURI, r.Host, r.Proto, r.ContentLength, r.TransferEncoding, r.Trailer)
		for _, key := range keys {
			_, _ = fmt.Fprintf(w, "\n%s: %q", key, r.Header[key])
		}
	case "long":
		_, _ = w.Write(bytes.Repeat([]byte("l"), 100_000))
	case "pieces":
		for i := range 3 {
			_, _ = fmt.Fprintf(w, "piece %d", i)
			_ = http.NewResponseController(w).Flush()
		}
	case "trailer":
		h.Set("Trailer", "A, B")
		h.Set("A", "too early")
		_, _ = io.WriteString(w, "text")
		h.Set("A", "1")
		h.Set(http.TrailerPrefix+"C", "3")
	case "nothing":
		h.Set("Content-Length", "3")
		w.WriteHeader(http.StatusNoContent)
		_, _ = io.WriteString(w, "???")
	case "unchanged":
		w.WriteHeader(http.StatusNotModified)
	case "hints":
		h.Set("Link", "</a>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		_, _ = io.WriteString(w, "then")
	case "abort":
		panic(http.ErrAbortHandler)
	case "abort-later":
		_, _ = io.WriteString(w, "begun")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	case "empty":
	case "odd":
		h["Connection"], h["Odd name"], h["Odd-Value"], h["X-Two"] = []string{"keep-alive"}, []string{"x"}, []string{"a\nb"}, []string{"1", "2"}
		w.WriteHeader(299)
		w.WriteHeader(http.StatusTeapot)
	case "short":
		h.Set("Content-Length", "10")
		_, _ = io.WriteString(w, "short")
	default:
		http.NotFound(w, r)
	}
})

// FuzzHTTP2Engines sends the same frames to net/http's HTTP/2 and to internal/http2. A client sees the
// same of both, but for what [http2Differences] says.
func FuzzHTTP2Engines(f *testing.F) {
	for i := range http2Requests {
		for _, flags := range []byte{0x80, 0x90} { // HEADERS and DATA one after the other, and together
			f.Add([]byte{0, 0, byte(i), 0, flags, 0})
		}
	}
	for i := range http2Fields {
		f.Add([]byte{0, 0, byte(i % 2 * 17), 1, byte(i), 0x90, 0})
		f.Add([]byte{0, 0, 23, 1, byte(i), 0x90, 0})
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		if *netHTTP2 {
			return // all servers have one engine
		}
		bursts := newHTTP2Script(input).make()
		synctest.Test(t, func(t *testing.T) {
			theirs, ours := viewOf(t, false, bursts), viewOf(t, true, bursts)
			sent := readHTTP2(bursts)
			if why := differ(theirs, ours, sent); why != "" {
				t.Errorf("%s\n%v", why, sent)
			}
		})
	})
}
