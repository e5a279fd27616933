package http2calls

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/internal/http2"
)

// Types of frames.
const (
	data         = 0
	headers      = 1
	reset        = 3
	settings     = 4
	ping         = 6
	goAway       = 7
	windowUpdate = 8
	continuation = 9
)

// Flags of frames.
const (
	endStream  = 1
	ack        = 1
	endHeaders = 4
)

// Header blocks without anything from a table that a peer fills.
const (
	ok       = "\x88"               // ":status: 200"
	finished = "\x00\x01a\x01b"     // "a: b"
	noStatus = "\x00\x01a\x01b"     // the same, where a header must be
	capital  = "\x88\x00\x01A\x01b" // "A: b"
)

const stall = 20 * time.Second

// peer is a server that a test plays, frame by frame. Its methods fail when the connection ends.
type peer struct {
	net.Conn
}

// received is a frame that has come.
type received struct {
	kind, flags byte
	stream      uint32
	payload     []byte
}

func (f *received) word() uint32 { return binary.BigEndian.Uint32(f.payload) }

func frame(kind, flags byte, stream uint32, payload string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	return append(binary.BigEndian.AppendUint32(append(b, flags), stream), payload...)
}

func words(list ...uint32) string {
	var b []byte
	for _, w := range list {
		b = binary.BigEndian.AppendUint32(b, w)
	}
	return string(b)
}

func setting(id uint16, value uint32) string {
	return string(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(nil, id), value))
}

func (p *peer) send(kind, flags byte, stream uint32, payload string) error {
	_, err := p.Write(frame(kind, flags, stream, payload))
	return err
}

// greet reads the preface and the client's settings, and sends its own.
func (p *peer) greet(own string) error {
	if _, err := io.ReadFull(p, make([]byte, len(http2.Preface))); err != nil {
		return err
	}
	for range 2 { // SETTINGS, and WINDOW_UPDATE for the connection
		if _, err := p.next(); err != nil {
			return err
		}
	}
	return p.send(settings, 0, 0, own)
}

// next reads a frame.
func (p *peer) next() (f received, err error) {
	var head [9]byte
	if _, err := io.ReadFull(p, head[:]); err != nil {
		return f, err
	}
	n := binary.BigEndian.Uint32(head[:]) >> 8
	f = received{head[3], head[4], binary.BigEndian.Uint32(head[5:]), make([]byte, n)}
	_, err = io.ReadFull(p, f.payload)
	return f, err
}

// until reads up to a frame of that kind.
func (p *peer) until(kind byte) (f received, err error) {
	for {
		if f, err = p.next(); err != nil || f.kind == kind {
			return f, err
		}
	}
}

// answer sends a response with a body.
func (p *peer) answer(stream uint32, body string) error {
	return errors.Join(p.send(headers, endHeaders, stream, ok), p.send(data, 0, stream, body), p.send(headers, endHeaders|endStream, stream, finished))
}

// requests answers all requests with their bodies until the connection ends.
func (p *peer) requests() error {
	bodies := map[uint32]string{}
	for {
		f, err := p.next()
		if err != nil {
			return err
		}
		if f.kind != data {
			continue
		}
		bodies[f.stream] += string(f.payload)
		if f.flags&endStream != 0 {
			if err := p.answer(f.stream, bodies[f.stream]); err != nil {
				return err
			}
		}
	}
}

// play runs a server on the other end of a connection, and returns the client's end. The server has
// ended when the test ends.
func play(t *testing.T, server func(p *peer) error) net.Conn {
	ours, theirs := net.Pipe()
	playOn(t, ours, theirs, server)
	return ours
}

// playOn is play on a connection that exists.
func playOn(t *testing.T, ours, theirs net.Conn, server func(p *peer) error) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer theirs.Close()
		if err := server(&peer{theirs}); err != nil && !isEnd(err) {
			t.Error(err)
		}
	}()
	t.Cleanup(func() {
		_ = ours.Close()
		<-ended
	})
}

// isEnd reports whether an error is that of a connection that the other end has closed.
func isEnd(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// begin begins HTTP/2 with a server that a test plays.
func begin(t *testing.T, cfg Config, server func(p *peer) error) *Conn {
	t.Helper()
	cfg.Stall = stall
	nc := play(t, server)
	c, err := Start(t.Context(), nc, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

var request = []http2.Field{{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: "/a/b"}, {Name: ":authority", Value: "h"}}

func newCall(body string) *Exchange {
	x := NewExchange()
	x.Header = append(x.Header, request...)
	x.Body = append(x.Body, body...)
	x.MaxBody = 1 << 20
	return x
}

// call makes a call, and returns its response.
func call(ctx context.Context, c *Conn, body string) (string, error) {
	x := newCall(body)
	defer x.Release()
	err := c.Do(ctx, x)
	return string(x.Response), err
}

// failure returns the error of a call that has failed because of its connection or stream.
func failure(t *testing.T, err error) *FailedError {
	t.Helper()
	e, ok := errors.AsType[*FailedError](err)
	if !ok {
		t.Fatalf("%v is no FailedError", err)
	}
	return e
}
