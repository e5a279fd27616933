package thrift_test

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	apache "github.com/apache/thrift/lib/go/thrift"

	"github.com/tandem-rpc/tandem/protocol/thrift/testdata/desk"
	"github.com/tandem-rpc/tandem/server"
)

// stranger is a connection on which a test writes any bytes.
type stranger struct {
	t *testing.T
	net.Conn

	ears map[string]apache.TProtocol // protocols that read the responses, by dialect
}

func newStranger(t *testing.T, address string) *stranger {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return &stranger{t, c, map[string]apache.TProtocol{}}
}

func (s *stranger) say(b []byte) {
	s.t.Helper()
	if _, err := s.Write(b); err != nil {
		s.t.Fatal(err)
	}
}

// hear reads a response in a dialect. It returns the response's number and its exception.
func (s *stranger) hear(dialect string) (int32, apache.TApplicationException) {
	s.t.Helper()
	ctx := context.Background()
	p, ok := s.ears[dialect]
	if !ok {
		config := &apache.TConfiguration{}
		p = dialects[dialect](apache.NewTSocketFromConnConf(s.Conn, config), config)
		s.ears[dialect] = p
	}
	_, kind, seq, err := p.ReadMessageBegin(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	if kind != apache.EXCEPTION {
		if err := p.Skip(ctx, apache.STRUCT); err != nil {
			s.t.Fatal(err)
		}
		return seq, nil
	}
	e := apache.NewTApplicationException(apache.UNKNOWN_APPLICATION_EXCEPTION, "")
	if err := e.Read(ctx, p); err != nil {
		s.t.Fatal(err)
	}
	return seq, e
}

// refused reads a response, which must be an exception of that kind.
func (s *stranger) refused(dialect string, kind int32, text string) {
	s.t.Helper()
	if _, e := s.hear(dialect); e == nil || e.TypeId() != kind || !strings.Contains(e.Error(), text) {
		s.t.Errorf("%s: %v, want %d %q", dialect, e, kind, text)
	}
}

// alive makes a call that must succeed.
func (s *stranger) alive(dialect string) {
	s.t.Helper()
	s.say(said(s.t, dialect, "ping", apache.CALL, &desk.DeskPingArgs{}))
	if seq, e := s.hear(dialect); seq != 7 || e != nil {
		s.t.Errorf("%s: %d, %v", dialect, seq, e)
	}
}

// gone waits for the end of the connection.
func (s *stranger) gone() {
	s.t.Helper()
	if n, err := io.Copy(io.Discard, s.Conn); n != 0 || err != nil && !strings.Contains(err.Error(), "reset") {
		s.t.Errorf("%d bytes, %v, want the end", n, err)
	}
}

// frame joins the parts and puts their length before them.
func frame(parts ...string) []byte {
	all := strings.Join(parts, "")
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(all))), all...)
}

const (
	blobHead = "\x80\x01\x00\x01\x00\x00\x00\x04blob\x00\x00\x00\x09"
	fakeHead = "\x0f\xff\x00\x00\x00\x00\x00\x07"
)

// Malformed calls are errors on a connection that stays open.
func TestBadCalls(t *testing.T) {
	address := serve(t, &office{}, server.WithMaxMessage(1<<20))
	for name, c := range map[string]struct {
		said []byte
		kind int32
		text string
	}{
		"a string that is too long":    {frame(blobHead, "\x0b\x00\x01\x7f\xff\xff\xffabc\x00"), apache.PROTOCOL_ERROR, "invalid argument"},
		"a string of negative length":  {frame(blobHead, "\x0b\x00\x01\xff\xff\xff\xffabc\x00"), apache.PROTOCOL_ERROR, "invalid argument"},
		"a list that is too long":      {frame(blobHead, "\x0f\x00\x05\x0b\x10\x00\x00\x00\x00\x00"), apache.PROTOCOL_ERROR, "invalid argument"},
		"a set of nothings":            {frame(blobHead, "\x0e\x00\x05\x00\x10\x00\x00\x00\x00\x00"), apache.PROTOCOL_ERROR, "invalid argument"},
		"a map that is too long":       {frame(blobHead, "\x0d\x00\x05\x03\x03\x10\x00\x00\x00\x00\x00"), apache.PROTOCOL_ERROR, "invalid argument"},
		"structs in structs":           {frame(blobHead, strings.Repeat("\x0c\x00\x05", 100), strings.Repeat("\x00", 101)), apache.PROTOCOL_ERROR, "nested more than 64 deep"},
		"lists in lists":               {frame(blobHead, "\x0f\x00\x05", strings.Repeat("\x0f\x00\x00\x00\x01", 100), "\x03\x00\x00\x00\x00\x00"), apache.PROTOCOL_ERROR, "nested more than 64 deep"},
		"no end":                       {frame(blobHead, "\x0b\x00\x01\x00\x00\x00\x01a"), apache.PROTOCOL_ERROR, "unexpected EOF"},
		"more than the end":            {frame(blobHead, "\x00\x00"), apache.PROTOCOL_ERROR, "1 bytes behind the parameters"},
		"another type":                 {frame(blobHead, "\x08\x00\x01\x00\x00\x00\x01\x00"), apache.PROTOCOL_ERROR, "I32 came where STRING is wanted"},
		"more than the server's limit": {frame(blobHead, "\x0b\x00\x01\x00\x10\x00\x00", strings.Repeat("x", 1<<20), "\x00"), apache.INTERNAL_ERROR, "resource exhausted: message of 1048584 bytes, blob takes at most 1048576"},
		"no such method":               {frame("\x80\x01\x00\x01\x00\x00\x00\x04glob\x00\x00\x00\x09\x00"), apache.UNKNOWN_METHOD, `no method "glob" here`},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStranger(t, address)
			s.say(c.said)
			s.refused("framed binary", c.kind, c.text)
			s.alive("framed binary")
		})
	}
}

// Nested containers that each claim all remaining bytes are rejected.
func TestClaimsOfContainersAddUp(t *testing.T) {
	s := newStranger(t, serve(t, &office{}))
	head := "\x80\x01\x00\x01\x00\x00\x00\x08by_title\x00\x00\x00\x09"
	const size = 1 << 16
	s.say(frame(head, "\x0f\x00\x01\x0c\x00\x00\x80\x00", "\x0e\x00\x07\x08\x00\x00\x3f\x00", strings.Repeat("\x00", size)))
	s.refused("framed binary", apache.PROTOCOL_ERROR, "a container of 16128 elements")
}

// A request that can't be answered ends the connection.
func TestNotThrift(t *testing.T) {
	address := serve(t, &office{})
	for name, said := range map[string][]byte{
		"an empty frame":         frame(""),
		"a frame too large":      []byte("\x08\x00\x00\x00\x80\x01\x00\x01"),
		"no message":             frame("abcdefgh"),
		"an answer":              frame("\x80\x01\x00\x02\x00\x00\x00\x04ping\x00\x00\x00\x09\x00"),
		"half a head":            frame("\x80\x01\x00\x01\x00\x00\x00\x04pi"),
		"a long name":            frame("\x80\x01\x00\x01\x00\x00\x04\x01", strings.Repeat("x", 1100)),
		"a long name, compact":   frame("\x82\x21\x00\x81\x08", strings.Repeat("x", 1100)),
		"a number without end":   frame("\x82\x21", strings.Repeat("\xff", 20)),
		"a header cut short":     frame(fakeHead, "\x00\x01\x02\x00"),
		"a header beyond":        frame(fakeHead, "\xff\xff\x02\x00"),
		"JSON in a header":       frame(fakeHead, "\x00\x01\x01\x00\x00\x00", "{}{}{}"),
		"a transform":            frame(fakeHead, "\x00\x01\x00\x01\x03\x00", "xxxxxx"),
		"twice compressed":       frame(fakeHead, "\x00\x01\x00\x02\x01\x01", "xxxxxx"),
		"not compressed":         frame(fakeHead, "\x00\x01\x00\x01\x01\x00", "xxxxxx"),
		"another than announced": frame(fakeHead, "\x00\x01\x02\x00\x00\x00", "\x80\x01\x00\x01\x00\x00\x00\x04ping\x00\x00\x00\x09\x00"),
	} {
		t.Run(name, func(t *testing.T) {
			s := newStranger(t, address)
			s.alive("framed binary")
			s.say(said)
			if err := s.Conn.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			s.gone()
		})
	}
}

// Without a frame a message that is too large ends the connection, since its end can't be
// found.
func TestBareMessageTooLarge(t *testing.T) {
	address := serve(t, &office{}, server.WithMaxMessage(1<<10))
	for name, said := range map[string]string{
		"long":        blobHead + "\x0b\x00\x01\x00\x00\x08\x00" + strings.Repeat("x", 2048) + "\x00",
		"claims much": blobHead + "\x0f\x00\x05\x03\x7f\xff\xff\xff",
	} {
		t.Run(name, func(t *testing.T) {
			s := newStranger(t, address)
			s.alive("buffered binary")
			s.say([]byte(said))
			s.refused("buffered binary", apache.INTERNAL_ERROR, "message of more than 1024 bytes")
			s.gone()
		})
	}
}

// header returns a THeader with these infos, and a message after it.
func header(transforms, infos, message string) []byte {
	block := "\x00" + transforms + infos
	block += strings.Repeat("\x00", -len(block)&3)
	size := len(block) / 4
	return frame(fakeHead, string([]byte{byte(size >> 8), byte(size)}), block, message)
}

const ping = "\x80\x01\x00\x01\x00\x00\x00\x04ping\x00\x00\x00\x07\x00"

func TestMetadataLimits(t *testing.T) {
	address := serve(t, &office{})
	for name, c := range map[string]struct{ infos, text string }{
		"many pairs": {"\x01\x81\x01" + strings.Repeat("\x01a\x00", 129), "metadata of more than 128 pairs"},
		"in pieces":  {"\x01\x01\x01a\x00\x01\x80\x01" + strings.Repeat("\x01a\x00", 128), "metadata of more than 128 pairs"},
		"many bytes": {"\x01\x01\x01a\x80\x80\x02" + strings.Repeat("x", 32<<10), "limit 16384"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStranger(t, address)
			s.say(header("\x00", c.infos, ping))
			s.refused("header binary", apache.INTERNAL_ERROR, c.text)
			s.alive("header binary")
		})
	}
}

// A message that is too large only when decompressed is refused too.
func TestZlibBomb(t *testing.T) {
	var packed bytes.Buffer
	w := zlib.NewWriter(&packed)
	_, _ = io.WriteString(w, blobHead+"\x0b\x00\x01\x10\x00\x00\x00")
	for range 2 {
		_, _ = w.Write(make([]byte, 1<<20))
	}
	w.Close()
	s := newStranger(t, serve(t, &office{}, server.WithMaxMessage(1<<20)))
	s.say(header("\x01\x01", "", packed.String()))
	s.refused("header binary", apache.INTERNAL_ERROR, "message of more than 1048576 bytes, decompressed")
	s.alive("header binary")
}

// Pipelined requests are answered in their order.
func TestPipelined(t *testing.T) {
	s := newStranger(t, serve(t, &office{}))
	var all []byte
	for i := range 100 {
		all = append(all, frame("\x80\x01\x00\x01\x00\x00\x00\x03who", string([]byte{0, 0, 0, byte(i)}), "\x00")...)
	}
	s.say(all)
	for i := range int32(100) {
		if seq, e := s.hear("framed binary"); seq != i || e != nil {
			t.Fatalf("%d, %v where %d is due", seq, e, i)
		}
	}
}

// A one-way request is never answered, not even with an error.
func TestOneWayIsNeverAnswered(t *testing.T) {
	address := serve(t, &office{})
	for dialect := range dialects {
		s := newStranger(t, address)
		for _, method := range []string{"ping", "add", "glob"} {
			s.say(said(t, dialect, method, apache.ONEWAY, &desk.DeskNoteArgs{Text: "no number"}))
		}
		s.alive(dialect)
	}
}

// A list of structs without fields has one byte an element, and much more when decoded:
// that memory is reserved first.
func TestListsAreEstimated(t *testing.T) {
	const papers = 100_000
	count := string(binary.BigEndian.AppendUint32(nil, papers))
	message := frame("\x80\x01\x00\x01\x00\x00\x00\x08by_title\x00\x00\x00\x07",
		"\x0f\x00\x01\x0c", count, strings.Repeat("\x00", papers), "\x00")
	s := newStranger(t, serve(t, &office{}, server.WithMaxDecoded(4<<20)))
	s.say(message)
	s.refused("framed binary", apache.INTERNAL_ERROR, "bytes of memory when decoded, limit 4194304")
	s.alive("framed binary")

	s = newStranger(t, serve(t, &office{}))
	s.say(message)
	if _, e := s.hear("framed binary"); e != nil {
		t.Errorf("below the limit: %v", e)
	}
}

// A large request waits while another one holds the memory, and is served after it.
func TestRequestsWaitForMemory(t *testing.T) {
	address := serve(t, &office{}, server.WithMemory(1<<20))
	blob := frame(blobHead, "\x0b\x00\x01\x00\x20\x00\x00", strings.Repeat("x", 2<<20), "\x00")
	first, second := newStranger(t, address), newStranger(t, address)
	first.say(blob[:1<<20]) // the request has begun, and may exceed the memory alone
	written := make(chan struct{})
	go func() {
		defer close(written)
		_, _ = second.Write(blob) // the test notices in the response if it failed
	}()
	first.say(blob[1<<20:])
	for _, s := range []*stranger{first, second} {
		if _, e := s.hear("framed binary"); e != nil {
			t.Error(e)
		}
	}
	<-written
}
