package wire_test

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/wire"
)

var update = flag.Bool("update", false, "rewrite testdata/vectors.txt")

const vectorFile = "testdata/vectors.txt"

const vectorIntro = `# Golden vectors of the protocol, for implementations in any language: each is
# what one side sends, in words and in hex. docs/reference/protocol.md explains some of
# them byte by byte. "read" vectors are what a receiver must understand although
# this version sends nothing like it.
#
# go test ./wire -run TestVectors -update writes this file anew: only when the
# protocol itself has changed.
`

// vector is a series of elements that one side sends.
type vector struct {
	name string
	send []element // nil for a read vector
	read string    // its bytes in hex
}

var (
	first = wire.MakeStream(0, 1)
	reuse = wire.MakeStream(0, 2) // the same index, free again
	later = wire.MakeStream(700, 70_000)
)

func knownName(n int) wire.Name { return wire.Name{Number: n} }
func newName(s string) wire.Name {
	return wire.Name{Text: []byte(s), Define: true}
}

func request(f wire.Flags, s wire.Stream, r wire.Request, block string) element {
	return element{header: wire.Header{Type: wire.TypeRequest, Flags: f, Stream: s}, head: &r, block: []byte(block)}
}

func response(f wire.Flags, s wire.Stream, r wire.Response, block string) element {
	return element{header: wire.Header{Type: wire.TypeResponse, Flags: f | wire.FlagAnswer, Stream: s}, head: &r, block: []byte(block)}
}

func data(f wire.Flags, s wire.Stream, block string) element {
	return element{header: wire.Header{Type: wire.TypeData, Flags: f, Stream: s}, block: []byte(block)}
}

func control(typ wire.Type, f wire.Flags, s wire.Stream, head any) element {
	return element{header: wire.Header{Type: typ, Flags: f, Stream: s}, head: head}
}

func preface(codecs, compressors []string) element {
	s := wire.DefaultSettings()
	s.Codecs, s.Compressors = codecs, compressors
	return element{preface: &s}
}

const both = wire.FlagEnd | wire.FlagLast

var vectors = []vector{
	{name: "preface-client", send: []element{preface([]string{"json"}, nil)}},
	{name: "preface-server", send: []element{preface([]string{"gob", "json", "raw", "generated"}, []string{"gzip", "deflate"})}},
	{name: "preface-other-numbers", send: []element{{preface: &wire.Settings{MaxMessage: 1 << 40, MaxOpen: 1, StreamWindow: wire.MinWindow, ConnWindow: wire.MaxWindow}}}},
	{name: "preface-without-settings", read: "93544e44 01 00 0000"},
	{name: "preface-of-a-later-version", read: "93544e44 02 00 0c00 630468617368 05046a736f6e"},

	{name: "request-defines-name", send: []element{request(wire.FlagEnd, first, wire.Request{Name: newName("Arith.Mul"), Codec: 1, Timeout: 5 * time.Second}, `{"A":7,"B":8}`)}},
	{name: "request-known-name", send: []element{request(wire.FlagEnd, reuse, wire.Request{Name: knownName(0), Codec: 1, Timeout: 5 * time.Second}, `{"A":7,"B":8}`)}},
	{name: "request-literal-name", send: []element{request(wire.FlagEnd, later, wire.Request{Name: wire.Name{Text: []byte("Arith.Mul")}, Codec: 1}, "")}},
	{name: "request-everything", send: []element{request(wire.FlagEnd|wire.FlagCompressed, later, wire.Request{
		Name: knownName(200), Codec: 2, Timeout: time.Microsecond, Attempt: 2, Compressor: 1,
		Metadata: mustMetadata(tandem.Metadata{"tenant": {"blue"}, "trace": {"4bf92f", "00f067"}}), Size: 5,
	}, "\x01\x02\x03\x04\x05")}},
	{name: "request-several-arguments", send: []element{request(wire.FlagEnd, reuse, wire.Request{Name: newName("Arith.Divide"), Codec: 1}, "\x02\x017\x012")}},
	{name: "request-one-way", send: []element{request(wire.FlagEnd|wire.FlagOneWay, 0, wire.Request{Name: knownName(0), Codec: 1}, "7")}},
	{name: "request-in-blocks", send: []element{
		request(0, first, wire.Request{Name: knownName(0), Codec: 2, Size: 11}, "hello"),
		data(0, first, " wor"),
		data(wire.FlagEnd, first, "ld"),
	}},
	{name: "request-one-way-in-blocks", send: []element{
		request(wire.FlagOneWay, first, wire.Request{Name: knownName(0), Codec: 2, Size: 11}, "hello"),
		data(wire.FlagEnd, first, " world"),
	}},
	{name: "request-with-extension", read: "0c0000 01 01 00000100000000 02 81 01 c096b102 03 ffffff 37"},

	{name: "response", send: []element{response(both, first, wire.Response{HasLoad: true, Load: wire.Load{InFlight: 3, Queued: 0, Utilization: 12}}, `{"C":56}`)}},
	{name: "response-without-message", send: []element{response(both, reuse, wire.Response{}, "")}},
	{name: "response-refused", send: []element{response(both, first, wire.Response{
		Status: encodeStatus(wire.Status{Code: tandem.Unimplemented, NotExecuted: true, Message: `no method "Arith.Mod" here`}),
	}, "")}},
	{name: "response-with-details", send: []element{response(both, later, wire.Response{
		Status:  encodeStatus(wire.Status{Code: tandem.NotFound, Message: "no order 17", Details: []tandem.Detail{{Type: "order", Value: []byte{17}}, {Type: "hint"}}}),
		Trailer: mustMetadata(tandem.Metadata{"node": {"b2"}}), HasLoad: true, Load: wire.Load{InFlight: 1, Queued: 300, Utilization: 100},
	}, "")}},
	{name: "response-with-retry-after", send: []element{response(both, first, wire.Response{
		Status: encodeStatus(wire.Status{Code: tandem.ResourceExhausted, NotExecuted: true, Message: "busy", RetryAfter: 250 * time.Millisecond}),
	}, "")}},
	{name: "response-do-not-retry", send: []element{response(both, first, wire.Response{
		Status: encodeStatus(wire.Status{Code: tandem.Unavailable, Message: "down", RetryAfter: tandem.DoNotRetry, Details: []tandem.Detail{{Type: "hint"}}}),
	}, "")}},
	{name: "response-with-extension", read: "060000 02 83 000001000000 00 80 02 ffff 3536"},
	{name: "response-in-blocks", send: []element{
		response(wire.FlagCompressed, first, wire.Response{Size: 11}, "hello"),
		data(wire.FlagAnswer|wire.FlagEnd, first, " world"),
	}},

	{name: "stream-opened", send: []element{request(wire.FlagEnd|wire.FlagStream, first, wire.Request{Name: newName("Chat.Talk"), Codec: 1}, "")}},
	{name: "stream-accepted", send: []element{response(wire.FlagStream, first, wire.Response{}, "")}},
	{name: "stream-messages", send: []element{
		data(wire.FlagStream|wire.FlagEnd, first, `"hello"`),
		data(wire.FlagStream|wire.FlagCompressed, first, "\x01\x02\x03"),
		data(wire.FlagStream|wire.FlagEnd, first, "\x04\x05"),
		data(wire.FlagStream|wire.FlagLast, first, ""),
	}},
	{name: "stream-answers", send: []element{
		data(wire.FlagStream|wire.FlagAnswer|wire.FlagEnd, first, `"hi"`),
		response(both, first, wire.Response{Trailer: mustMetadata(tandem.Metadata{"count": {"2"}})}, ""),
	}},

	{name: "cancel", send: []element{control(wire.TypeCancel, 0, first, nil)}},
	{name: "reset", send: []element{control(wire.TypeReset, wire.FlagAnswer, first, &wire.Status{Code: tandem.Canceled, Message: "canceled by the caller"})}},
	{name: "window-of-the-connection", send: []element{control(wire.TypeWindow, 0, 0, uint32(1<<20))}},
	{name: "window-of-a-request", send: []element{control(wire.TypeWindow, wire.FlagAnswer, first, uint32(256<<10))}},
	{name: "window-of-an-answer", send: []element{control(wire.TypeWindow, 0, later, uint32(1))}},
	{name: "ping-pong", send: []element{
		control(wire.TypePing, 0, 0, [8]byte{1, 2, 3, 4, 5, 6, 7, 8}),
		control(wire.TypePong, 0, 0, [8]byte{8, 7, 6, 5, 4, 3, 2, 1}),
	}},
	{name: "goaway-drain", send: []element{control(wire.TypeGoAway, 0, 0, wire.GoAway{Accepted: 1000, Reason: wire.ReasonDrain, Message: "shutting down"})}},
	{name: "goaway-violation", send: []element{control(wire.TypeGoAway, 0, 0, wire.GoAway{Accepted: 1, Reason: wire.ReasonViolation, Message: "ping of 7 bytes, want 8"})}},
	{name: "goaway-without-message", send: []element{control(wire.TypeGoAway, 0, 0, wire.GoAway{Accepted: 1 << 40, Reason: wire.ReasonOverload})}},
	{name: "frame-of-a-later-version", read: "030000 2a ff 00000000000000 abcdef"},
}

func (v *vector) bytes(t *testing.T) (b []byte) {
	for i := range v.send {
		b = v.send[i].append(b)
	}
	if v.send == nil {
		b = unhex(t, v.read)
	}
	return b
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatalf("hex %.40q: %v", s, err)
	}
	return b
}

// wordsOf parses b and describes its elements in words.
func wordsOf(t *testing.T, b []byte) (lines []string) {
	t.Helper()
	for len(b) > 0 {
		e, rest, err := parse(b)
		if err != nil {
			t.Fatalf("% x: %v", b, err)
		}
		lines = append(lines, e.words()...)
		b = rest
	}
	return lines
}

// TestVectors compares every vector with the committed file: Append writes its bytes,
// and Parse reads its words, which are also those of the appended fields.
func TestVectors(t *testing.T) {
	if *update {
		writeVectors(t)
	}
	golden := readVectors(t)
	if len(golden) != len(vectors) {
		t.Errorf("%s has %d vectors, the test has %d", vectorFile, len(golden), len(vectors))
	}
	for _, v := range vectors {
		t.Run(v.name, func(t *testing.T) {
			want, ok := golden[v.name]
			if !ok {
				t.Fatalf("not in %s", vectorFile)
			}
			if got := v.bytes(t); !bytes.Equal(got, want.hex) {
				t.Errorf("bytes\n got % x\nwant % x", got, want.hex)
			}
			if got := wordsOf(t, want.hex); !slices.Equal(got, want.words) {
				t.Errorf("parsed\n got %q\nwant %q", got, want.words)
			}
			if got := v.words(); v.send != nil && !slices.Equal(got, want.words) {
				t.Errorf("appended\n got %q\nwant %q", got, want.words)
			}
		})
	}
}

// words describes the appended elements. The lengths come from the bytes.
func (v *vector) words() (lines []string) {
	for i := range v.send {
		e := v.send[i]
		e.header.Length = max(0, len(e.append(nil))-wire.HeaderLen)
		lines = append(lines, e.words()...)
	}
	return lines
}

type golden struct {
	words []string
	hex   []byte
}

// readVectors reads the file: a name in brackets, then for each frame lines of
// words and indented lines of hex.
func readVectors(t *testing.T) map[string]golden {
	t.Helper()
	text, err := os.ReadFile(vectorFile)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]golden{}
	name := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		if line[0] == '[' {
			name = strings.Trim(line, "[]")
			if _, twice := all[name]; twice {
				t.Errorf("%s has %s twice", vectorFile, name)
			}
		}
		g := all[name]
		switch line[0] {
		case '[':
		case ' ':
			g.hex = append(g.hex, unhex(t, line)...)
		default:
			g.words = append(g.words, line)
		}
		all[name] = g
	}
	return all
}

func writeVectors(t *testing.T) {
	var b strings.Builder
	b.WriteString(vectorIntro)
	for _, v := range vectors {
		fmt.Fprintf(&b, "\n[%s]\n", v.name)
		for rest := v.bytes(t); len(rest) > 0; {
			e, after, err := parse(rest)
			if err != nil {
				t.Fatalf("%s: %v", v.name, err)
			}
			b.WriteString(strings.Join(e.words(), "\n") + "\n")
			for part := range slices.Chunk(rest[:len(rest)-len(after)], 32) {
				fmt.Fprintf(&b, "  % x\n", part)
			}
			rest = after
		}
	}
	if err := os.WriteFile(vectorFile, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
