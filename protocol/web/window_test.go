package web_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
)

// rawHTTP2 is an HTTP/2 client that controls its flow-control windows (RFC 9113).
type rawHTTP2 struct {
	*webTest

	conn net.Conn
}

// Frame types and flags.
const (
	frameData         = 0
	frameHeaders      = 1
	frameReset        = 3
	frameSettings     = 4
	framePing         = 6
	frameWindowUpdate = 8

	flagEndStream  = 1
	flagAck        = 1
	flagEndHeaders = 4
)

// dialHTTP2 opens a connection with an initial window of zero.
func (w *webTest) dialHTTP2() *rawHTTP2 {
	w.Helper()
	conn, err := w.net.Dial(w.Context(), "a")
	w.must(err)
	w.Cleanup(func() { _ = conn.Close() })
	w.must(conn.SetReadDeadline(time.Now().Add(20 * time.Second)))
	c := &rawHTTP2{w, conn}
	_, err = io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	w.must(err)
	const initialWindow = "\x00\x04"
	c.write(frameSettings, 0, 0, initialWindow+"\x00\x00\x00\x00")
	return c
}

func (c *rawHTTP2) write(kind, flags byte, stream uint32, payload string) {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	b = binary.BigEndian.AppendUint32(append(b, flags), stream)
	if _, err := c.conn.Write(append(b, payload...)); err != nil {
		c.Error(err)
	}
}

// request sends the only request; what is "POST /path", fields are "name: value".
func (c *rawHTTP2) request(what, body string, fields ...string) {
	method, path, _ := strings.Cut(what, " ")
	// Fields that are not in HPACK's table (RFC 7541, section 6.2.2).
	literal := func(name, value string) string {
		return "\x00" + string([]byte{byte(len(name))}) + name + string([]byte{byte(len(value))}) + value
	}
	block := literal(":method", method) + literal(":scheme", "http") + literal(":path", path) + literal(":authority", "tandem.test")
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		block += literal(name, value)
	}
	c.write(frameHeaders, flagEndHeaders, 1, block)
	c.write(frameData, flagEndStream, 1, body)
}

// take grants the server n more bytes of window.
func (c *rawHTTP2) take(n uint32) {
	for _, stream := range []uint32{0, 1} {
		c.write(frameWindowUpdate, 0, stream, string(binary.BigEndian.AppendUint32(nil, n)))
	}
}

// finish reads to the end of the request's stream. It returns how the stream ended, and how
// many bytes of data came before.
func (c *rawHTTP2) finish() (how string, data int) {
	for {
		var head [9]byte
		if _, err := io.ReadFull(c.conn, head[:]); err != nil {
			return err.Error(), data
		}
		payload := make([]byte, binary.BigEndian.Uint32(head[:])>>8)
		if _, err := io.ReadFull(c.conn, payload); err != nil {
			return err.Error(), data
		}
		switch kind, flags := head[3], head[4]; {
		case kind == frameReset:
			return fmt.Sprint("reset ", binary.BigEndian.Uint32(payload)), data
		case kind == framePing && flags&flagAck == 0:
			c.write(framePing, flagAck, 0, string(payload))
		case kind == frameData:
			data += len(payload)
			fallthrough
		case kind == frameHeaders:
			if flags&flagEndStream != 0 {
				return "ended", data
			}
		}
	}
}

const resetInternal = "reset 2"

// A response over HTTP/2 that the client does not receive is held no longer than one over
// HTTP/1.1, though the client receives other data on the connection.
func TestAnswersAreNotHeld(t *testing.T) {
	kind := func(s string) string { return "content-type: application/" + s }
	for name, c := range map[string]struct {
		what, body string
		fields     []string
		after      time.Duration
	}{
		"large":                  {"POST /Text/Long", "307200", []string{kind("json")}, 2 * time.Second},
		"small":                  {"POST /Text/Long", "1", []string{kind("json")}, time.Second},
		"method fails":           {"POST /Arith/Fail", "5", []string{kind("json")}, time.Second},
		"arguments do not fit":   {"POST /Arith/Fail", "{", []string{kind("json")}, time.Second},
		"no method":              {"POST /Arith/Add", "5", []string{kind("json")}, time.Second},
		"method of HTTP":         {"PUT /Arith/Fail", "5", []string{kind("json")}, time.Second},
		"another type":           {"POST /Arith/Fail", "5", []string{kind("xml")}, time.Second},
		"compressed by another":  {"POST /Arith/Fail", "5", []string{kind("json"), "content-encoding: br"}, time.Second},
		"grpc":                   {"POST /Text/Long", "\x00\x00\x00\x00\x011", []string{kind("grpc+json")}, time.Second},
		"grpc, large":            {"POST /Text/Long", "\x00\x00\x00\x00\x06307200", []string{kind("grpc+json")}, 2 * time.Second},
		"grpc-web":               {"POST /Text/Long", "\x00\x00\x00\x00\x011", []string{kind("grpc-web+json")}, time.Second},
		"end of a stream":        {"POST /Numbers/None", "", []string{kind("connect+json")}, time.Second},
		"stream without a time":  {"POST /Numbers/None", "", []string{kind("connect+json"), "connect-timeout-ms: x"}, time.Second},
		"page":                   {"GET /", "", nil, time.Second},
		"document of the server": {"GET /openapi.json", "", nil, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWebTest(t, web.New(web.WithPages()), server.WithStallTimeout(time.Second))
				w.must(errors.Join(
					w.srv.RegisterFunc("Text.Long", func(n int) string { return strings.Repeat("x", n) }),
					w.srv.RegisterName("Arith", arith{}),
					server.HandleStream(w.srv, "Numbers.None", func(_ context.Context, s *tandem.Stream[number, number]) error {
						_, err := s.Recv()
						if errors.Is(err, io.EOF) {
							err = nil
						}
						return err
					}),
				))
				raw := w.dialHTTP2()
				start := time.Now()
				raw.request(c.what, c.body, c.fields...)
				if how, data := raw.finish(); how != resetInternal || data != 0 || time.Since(start) != c.after {
					t.Errorf("%s, %d bytes after %v, want %v", how, data, time.Since(start), c.after)
				}
				start = time.Now()
				if err := w.srv.Shutdown(t.Context()); err != nil || time.Since(start) > 5*time.Second {
					t.Errorf("Shutdown: %v after %v", err, time.Since(start))
				}
			})
		})
	}
}

// A client that receives 256 KiB within each stall timeout gets the whole response.
func TestAnswersMayBeTakenSlowly(t *testing.T) {
	const size = 1 << 20
	synctest.Test(t, func(t *testing.T) {
		w := newWebTest(t, web.New(), server.WithStallTimeout(time.Second))
		w.must(w.srv.RegisterFunc("Text.Long", func(n int) string { return strings.Repeat("x", n) }))
		raw := w.dialHTTP2()
		raw.request("POST /Text/Long", fmt.Sprint(size), "content-type: application/json")
		go func() {
			for range 1 + size/(256<<10) {
				time.Sleep(900 * time.Millisecond)
				raw.take(256 << 10)
			}
		}()
		if how, data := raw.finish(); how != "ended" || data != size+len(`""`) {
			t.Errorf("%s after %d bytes", how, data)
		}
	})
}

// A stream may pause if the client has received each of its messages, and so may an
// HTTP/1.1 connection.
func TestPausesAreNoStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWebTest(t, web.New(), server.WithStallTimeout(time.Second))
		w.must(errors.Join(
			w.srv.RegisterFunc("Text.Upper", strings.ToUpper),
			server.HandleStream(w.srv, "Numbers.Slow", func(_ context.Context, s *tandem.Stream[number, number]) error {
				for i := range int64(3) {
					time.Sleep(5 * time.Second)
					if err := s.Send(&number{Value: i}); err != nil {
						return err
					}
				}
				return nil
			}),
		))
		s := newClient[number, number](w.h2, "Numbers/Slow").CallBidiStream(t.Context())
		w.must(errors.Join(s.Send(nil), s.CloseRequest()))
		for i := range int64(3) {
			if m, err := s.Receive(); err != nil || m.GetValue() != i {
				t.Errorf("%v, %v", m, err)
			}
		}
		if _, err := s.Receive(); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
		w.must(s.CloseResponse())
		for range 3 {
			if a := w.do(w.h1, "POST /Text/Upper", asJSON, `"loud"`); a.Body != `"LOUD"` {
				t.Errorf("%+v", a)
			}
			time.Sleep(5 * time.Second)
		}
	})
}
