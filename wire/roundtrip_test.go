package wire_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/wire"
)

// dice makes random values of the protocol. A seed that fails is in the log.
type dice struct{ *rand.Rand }

func throw(t *testing.T, runs int, f func(d dice)) {
	t.Helper()
	seed := rand.Uint64()
	d := dice{rand.New(rand.NewPCG(seed, 1))}
	for range runs {
		f(d)
	}
	if t.Failed() {
		t.Logf("seed %d", seed)
	}
}

func (d dice) bool() bool { return d.IntN(2) == 0 }

// number returns a small, large or medium number of at most limit.
func (d dice) number(limit uint64) uint64 {
	if limit < 1<<63 {
		return min(d.Uint64()>>d.IntN(64), limit)
	}
	return d.Uint64() >> d.IntN(64)
}

func (d dice) bytes(most int) []byte {
	b := make([]byte, d.number(uint64(most)))
	for i := range b {
		b[i] = byte(d.Uint32())
	}
	return b
}

func (d dice) eight() (b [8]byte) {
	binary.LittleEndian.PutUint64(b[:], d.Uint64())
	return b
}

func (d dice) filled(most int) []byte { return append(d.bytes(most-1), byte(d.Uint32())) }

func (d dice) name() wire.Name {
	switch d.IntN(3) {
	case 0:
		return wire.Name{Number: d.IntN(wire.MaxNames)}
	case 1:
		return wire.Name{Text: d.filled(wire.MaxName), Define: true}
	}
	return wire.Name{Text: d.filled(wire.MaxName)}
}

func (d dice) metadata() tandem.Metadata {
	m := tandem.Metadata{}
	for range d.IntN(5) {
		m.Add(string(rune('a'+d.IntN(26))), string(d.bytes(100)))
	}
	return m
}

func (d dice) request() *wire.Request {
	r := &wire.Request{Name: d.name(), Codec: uint8(d.IntN(256))}
	if d.bool() {
		r.Timeout = time.Duration(1+d.number(1<<50)) * time.Microsecond
	}
	if d.bool() {
		r.Attempt = uint32(d.number(1 << 20))
		r.Compressor = uint8(d.IntN(256))
	}
	if m := d.metadata(); len(m) > 0 {
		r.Metadata = mustMetadata(m)
	}
	if d.bool() {
		r.Size = d.number(1<<64 - 1)
	}
	return r
}

func (d dice) status() *wire.Status {
	s := &wire.Status{Code: tandem.Code(d.IntN(17)), NotExecuted: d.bool(), Message: string(d.bytes(200))}
	switch d.IntN(3) {
	case 0:
		s.RetryAfter = tandem.DoNotRetry
	case 1:
		s.RetryAfter = time.Duration(d.Uint32()) * time.Microsecond
	}
	for range d.IntN(4) {
		s.Details = append(s.Details, tandem.Detail{Type: string(d.bytes(20)), Value: d.filled(200)})
	}
	return s
}

func (d dice) response() *wire.Response {
	r := &wire.Response{HasLoad: d.bool()}
	if d.bool() {
		r.Status = encodeStatus(*d.status())
	}
	if m := d.metadata(); len(m) > 0 {
		r.Trailer = mustMetadata(m)
	}
	if r.HasLoad {
		r.Load = wire.Load{InFlight: d.Uint32(), Queued: d.Uint32(), Utilization: uint8(d.IntN(101))}
	}
	if d.bool() {
		r.Size = d.number(1<<64 - 1)
	}
	return r
}

func (d dice) names(most int) []string {
	var list []string
	for range d.IntN(most + 1) {
		list = append(list, string(d.filled(32)))
	}
	return list
}

func (d dice) settings() wire.Settings {
	return wire.Settings{
		MaxMessage: 1 + d.number(1<<40-1), MaxOpen: 1 + d.number(1<<16-1),
		StreamWindow: max(wire.MinWindow, d.number(wire.MaxWindow)), ConnWindow: max(wire.MinWindow, d.number(wire.MaxWindow)),
		Codecs: d.names(64), Compressors: d.names(64),
	}
}

// same reports a difference between what was appended and what was parsed.
func same(t *testing.T, sent, got any) {
	t.Helper()
	if !reflect.DeepEqual(sent, got) {
		t.Errorf("sent %+v\n got %+v", sent, got)
	}
}

func TestRoundTripRequest(t *testing.T) {
	throw(t, 500, func(d dice) {
		sent, block := d.request(), d.bytes(300)
		var got wire.Request
		rest, err := wire.ParseRequest(append(wire.AppendRequest(nil, sent), block...), &got)
		if err != nil || !bytes.Equal(rest, block) {
			t.Errorf("%+v: %v, block % x, want % x", sent, err, rest, block)
		}
		if most := 9007199254740 * time.Microsecond; sent.Timeout > most {
			sent.Timeout = most
		}
		same(t, sent, &got)
	})
}

func TestRoundTripResponse(t *testing.T) {
	throw(t, 500, func(d dice) {
		sent, block := d.response(), d.bytes(300)
		var got wire.Response
		rest, err := wire.ParseResponse(append(wire.AppendResponse(nil, sent), block...), &got)
		if err != nil || !bytes.Equal(rest, block) {
			t.Errorf("%+v: %v, block % x, want % x", sent, err, rest, block)
		}
		same(t, sent, &got)
	})
}

func TestRoundTripStatus(t *testing.T) {
	throw(t, 500, func(d dice) {
		sent := d.status()
		got, err := wire.ParseStatus(wire.AppendStatus(nil, sent))
		if err != nil {
			t.Error(err)
		}
		same(t, *sent, got)
	})
}

func TestRoundTripMetadata(t *testing.T) {
	throw(t, 500, func(d dice) {
		sent := d.metadata()
		got, err := wire.ParseMetadata(mustMetadata(sent))
		if err != nil {
			t.Error(err)
		}
		if len(sent) > 0 || got != nil {
			same(t, sent, got)
		}
	})
}

func TestRoundTripPreface(t *testing.T) {
	throw(t, 500, func(d dice) {
		sent := d.settings()
		b := wire.AppendPreface(nil, sent)
		version, n, err := wire.ParsePrefaceHead(b)
		if err != nil || version != wire.Version || n != len(b)-wire.PrefaceLen {
			t.Errorf("version %d, %d of %d bytes of settings, %v", version, n, len(b)-wire.PrefaceLen, err)
		}
		got, err := wire.ParseSettings(b[wire.PrefaceLen:])
		if err != nil {
			t.Error(err)
		}
		same(t, sent, got)
	})
}

func TestRoundTripHeader(t *testing.T) {
	throw(t, 500, func(d dice) {
		sent := wire.Header{
			Length: int(d.number(wire.MaxBlock)), Type: wire.Type(d.Uint32()), Flags: wire.Flags(d.Uint32()),
			Stream: wire.MakeStream(uint16(d.Uint32()), d.Uint64()),
		}
		b := wire.AppendHeader([]byte("before"), sent)[len("before"):]
		got, err := wire.ParseHeader(b)
		if err != nil || len(b) != wire.HeaderLen {
			t.Errorf("%v, %d bytes", err, len(b))
		}
		same(t, sent, got)
		over := bytes.Repeat([]byte{0xaa}, wire.HeaderLen)
		wire.PutHeader(over, sent)
		same(t, b, over)
	})
}

func TestRoundTripControl(t *testing.T) {
	throw(t, 500, func(d dice) {
		sent := []element{
			control(wire.TypeWindow, wire.Flags(d.Uint32()), wire.MakeStream(uint16(d.Uint32()), d.Uint64()), 1+uint32(d.number(wire.MaxWindow-1))),
			control(wire.TypePing, 0, 0, d.eight()),
			control(wire.TypeGoAway, 0, 0, wire.GoAway{Accepted: d.Uint64(), Reason: wire.Reason(d.Uint32()), Message: string(d.bytes(1024))}),
		}
		for _, e := range sent {
			got, rest, err := parse(e.append(nil))
			if err != nil || len(rest) > 0 {
				t.Errorf("%v, %d bytes left", err, len(rest))
			}
			got.header.Length = 0
			same(t, e, got)
		}
	})
}

// TestAppendDoesNotTouch checks that Append functions do not change the bytes that are in dst.
func TestAppendDoesNotTouch(t *testing.T) {
	for _, v := range vectors {
		before := []byte("what was there")
		for i := range v.send {
			e := &v.send[i]
			if got := e.append(before); !bytes.HasPrefix(got, before) || !bytes.Equal(got[len(before):], e.append(nil)) {
				t.Errorf("%s: got % x", v.name, got)
			}
		}
	}
}

func TestMetadataLimits(t *testing.T) {
	many := tandem.Metadata{}
	for range wire.MaxMetadataPairs {
		many.Add("k", "")
	}
	const overhead = 1 + 3 + 1 // two lengths and the key
	large := func(n int) tandem.Metadata { return tandem.Metadata{"k": {strings.Repeat("v", n)}} }
	for name, c := range map[string]struct {
		m  tandem.Metadata
		ok bool
	}{
		"nothing":        {nil, true},
		"empty key":      {tandem.Metadata{"": {"v"}}, false},
		"no values":      {tandem.Metadata{"k": nil}, true},
		"most pairs":     {many, true},
		"too many pairs": {tandem.Metadata{"k": many["k"], "l": {""}}, false},
		"large":          {large(wire.MaxMetadata - overhead - 6), true},
		"too large":      {large(wire.MaxMetadata), false},
	} {
		b, err := wire.AppendMetadata([]byte("before"), c.m)
		if (err == nil) != c.ok || !bytes.HasPrefix(b, []byte("before")) {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && len(b) != len("before") {
			t.Errorf("%s: %d bytes left behind", name, len(b))
		}
		if err == nil && len(b) > len("before")+wire.MaxMetadata {
			t.Errorf("%s: %d bytes", name, len(b))
		}
	}
}

// TestStatusIsCut checks that any status fits its limit: details go first.
func TestStatusIsCut(t *testing.T) {
	detail := tandem.Detail{Type: "t", Value: make([]byte, 8<<10)}
	for name, c := range map[string]struct {
		s       wire.Status
		message int
		details int
	}{
		"fits":             {wire.Status{Message: "m", Details: []tandem.Detail{detail}}, 1, 1},
		"one detail fits":  {wire.Status{Message: "m", Details: []tandem.Detail{detail, detail, detail}}, 1, 1},
		"no detail fits":   {wire.Status{Message: strings.Repeat("m", 10<<10), Details: []tandem.Detail{detail}}, 10 << 10, 0},
		"message is cut":   {wire.Status{Message: strings.Repeat("m", 20<<10)}, wire.MaxStatus - 64, 0},
		"too many details": {wire.Status{Details: make([]tandem.Detail, 40)}, 0, wire.MaxDetails},
		"advice fits":      {wire.Status{Message: strings.Repeat("m", 20<<10), RetryAfter: math.MaxInt64}, wire.MaxStatus - 64, 0},
		"advice counts":    {wire.Status{RetryAfter: tandem.DoNotRetry, Details: make([]tandem.Detail, 40)}, 0, wire.MaxDetails - 1},
	} {
		b := encodeStatus(c.s)
		got, err := wire.ParseStatus(b)
		if err != nil || len(b) > wire.MaxStatus {
			t.Errorf("%s: %d bytes, %v", name, len(b), err)
		}
		if len(got.Message) != c.message || len(got.Details) != c.details {
			t.Errorf("%s: message of %d bytes, %d details", name, len(got.Message), len(got.Details))
		}
		if (got.RetryAfter != 0) != (c.s.RetryAfter != 0) {
			t.Errorf("%s: retry after %v, sent %v", name, got.RetryAfter, c.s.RetryAfter)
		}
	}
}

// TestRetryAfterIsRounded checks how a status rounds pauses and bounds them.
func TestRetryAfterIsRounded(t *testing.T) {
	for sent, want := range map[time.Duration]time.Duration{
		0:                0,
		1:                time.Microsecond, // never 0, which means do not
		1999:             time.Microsecond,
		math.MaxInt64:    9007199254740 * time.Microsecond,
		90 * time.Minute: 90 * time.Minute,
		-time.Second:     tandem.DoNotRetry,
	} {
		got, err := wire.ParseStatus(encodeStatus(wire.Status{RetryAfter: sent}))
		if err != nil || got.RetryAfter != want || got.Details != nil {
			t.Errorf("%v: got %v, %v", sent, got, err)
		}
	}
}

// TestUnreadableRetryAfter checks that advice that can't be read is ignored, and that
// the last of several counts.
func TestUnreadableRetryAfter(t *testing.T) {
	advice := func(values ...string) (all []tandem.Detail) {
		for _, v := range values {
			all = append(all, tandem.Detail{Type: "tandem-retry", Value: []byte(v)})
		}
		return all
	}
	for name, c := range map[string]struct {
		details []tandem.Detail
		want    time.Duration
	}{
		"empty":             {advice(""), 0},
		"cut off":           {advice("\x80"), 0},
		"more than a value": {advice("\x01\x01"), 0},
		"twice":             {advice("\x00", "\x05"), 5 * time.Microsecond},
	} {
		got, err := wire.ParseStatus(encodeStatus(wire.Status{Details: c.details}))
		if err != nil || got.RetryAfter != c.want || got.Details != nil {
			t.Errorf("%s: got %v, %v, want %v", name, got, err, c.want)
		}
	}
}

func TestGoAwayMessageIsCut(t *testing.T) {
	e := control(wire.TypeGoAway, 0, 0, wire.GoAway{Message: strings.Repeat("m", 2000)})
	got, _, err := parse(e.append(nil))
	if err != nil {
		t.Fatal(err)
	}
	if g := got.head.(wire.GoAway); len(g.Message) != 1024 {
		t.Errorf("message of %d bytes", len(g.Message))
	}
}

func TestTimeoutIsRounded(t *testing.T) {
	for sent, want := range map[time.Duration]time.Duration{
		1:                time.Microsecond, // never 0, which means none
		1999:             time.Microsecond,
		1 << 62:          9007199254740 * time.Microsecond,
		90 * time.Minute: 90 * time.Minute,
		-time.Second:     0,
	} {
		var got wire.Request
		if _, err := wire.ParseRequest(wire.AppendRequest(nil, &wire.Request{Timeout: sent}), &got); err != nil || got.Timeout != want {
			t.Errorf("%v: got %v, %v", sent, got.Timeout, err)
		}
	}
}

func TestMakeStream(t *testing.T) {
	for _, c := range []struct {
		index      uint16
		generation uint64
		want       wire.Stream
	}{
		{0, 0, 0},
		{0, 1, 0x10000},
		{65535, 1, 0x1ffff},
		{1, 1<<40 - 1, 0xffffffffff0001},
		{1, 1 << 40, 1},
	} {
		if got := wire.MakeStream(c.index, c.generation); got != c.want || got.Index() != c.index {
			t.Errorf("index %d, generation %d: got %#x", c.index, c.generation, uint64(got))
		}
	}
}
