package wire_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/wire"
)

// Bytes that a peer may send, written by hand.

func uv(n uint64) []byte { return binary.AppendUvarint(nil, n) }

// sized returns a length and that many bytes.
func sized(n int) []byte { return append(uv(uint64(n)), bytes.Repeat([]byte("x"), n)...) }

// cutOff declares n bytes and has one less.
func cutOff(n int) []byte { s := sized(n); return s[:len(s)-1] }

func join(parts ...[]byte) []byte { return slices.Concat(parts...) }

func setting(id uint64, value []byte) []byte {
	return join(uv(id), uv(uint64(len(value))), value)
}

// endless is a number of more than 64 bits.
var endless = bytes.Repeat([]byte{0xff}, 10)

// check is an input and the error that a parser returns for it; "" for none.
type check struct {
	name string
	in   []byte
	want string
}

// parsers has the parsers, without their results.
var parsers = map[string]func([]byte) error{
	"header":   func(b []byte) error { _, err := wire.ParseHeader(b); return err },
	"window":   func(b []byte) error { _, err := wire.ParseWindow(b); return err },
	"ping":     func(b []byte) error { _, err := wire.ParsePing(b); return err },
	"goaway":   func(b []byte) error { _, err := wire.ParseGoAway(b); return err },
	"preface":  func(b []byte) error { _, _, err := wire.ParsePrefaceHead(b); return err },
	"settings": func(b []byte) error { _, err := wire.ParseSettings(b); return err },
	"request":  func(b []byte) error { _, err := wire.ParseRequest(b, new(wire.Request)); return err },
	"response": func(b []byte) error { _, err := wire.ParseResponse(b, new(wire.Response)); return err },
	"status":   func(b []byte) error { _, err := wire.ParseStatus(b); return err },
	"metadata": func(b []byte) error { _, err := wire.ParseMetadata(b); return err },
}

var checks = map[string][]check{
	"header": {
		{"empty payload", header(0), ""},
		{"largest payload", header(1 << 16), ""},
		{"payload too large", header(1<<16 + 1), "frame of 65537 bytes, limit 65536"},
		{"payload of 16 MiB", header(1<<24 - 1), "limit 65536"},
		{"unknown type and flags", []byte{0, 0, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0}, ""},
	},
	"window": {
		{"empty", nil, "window frame of 0 bytes"},
		{"short", []byte{1, 0, 0}, "window frame of 3 bytes"},
		{"long", []byte{1, 0, 0, 0, 0}, "window frame of 5 bytes"},
		{"nothing", []byte{0, 0, 0, 0}, "window of 0 bytes"},
		{"least", []byte{1, 0, 0, 0}, ""},
		{"most", []byte{0, 0, 0, 0x40}, ""},
		{"too much", []byte{1, 0, 0, 0x40}, "window of 1073741825 bytes"},
		{"all bits", []byte{0xff, 0xff, 0xff, 0xff}, "window of 4294967295 bytes"},
	},
	"ping": {
		{"empty", nil, "ping of 0 bytes"},
		{"short", make([]byte, 7), "ping of 7 bytes"},
		{"right", make([]byte, 8), ""},
		{"long", make([]byte, 9), "ping of 9 bytes"},
	},
	"goaway": {
		{"empty", nil, "goaway of 0 bytes"},
		{"short", make([]byte, 8), "goaway of 8 bytes"},
		{"without message", make([]byte, 9), ""},
		{"longest message", make([]byte, 9+1024), ""},
		{"message too long", make([]byte, 9+1025), "goaway of 1034 bytes"},
		{"unknown reason", append(make([]byte, 8), 200), ""},
	},
	"preface": {
		{"without settings", []byte("\x93TND\x01\x00\x00\x00"), ""},
		{"longest settings", []byte("\x93TND\x01\x00\x00\x20"), ""},
		{"settings too long", []byte("\x93TND\x01\x00\x01\x20"), "settings of 8193 bytes"},
		{"settings far too long", []byte("\x93TND\x01\x00\xff\xff"), "settings of 65535 bytes"},
		{"version 0", []byte("\x93TND\x00\x00\x00\x00"), "version 0"},
		{"latest version", []byte("\x93TND\xff\x00\x00\x00"), ""},
		{"reserved byte", []byte("\x93TND\x01\xff\x00\x00"), ""},
		{"another first byte", []byte("\x92TND\x01\x00\x00\x00"), "preface starts with"},
		{"another magic", []byte("\x93TNE\x01\x00\x00\x00"), "preface starts with"},
		{"HTTP", []byte("GET / HT"), "preface starts with"},
		{"TLS", []byte("\x16\x03\x01\x02\x00\x01\x00\x01"), "preface starts with"},
	},
	"settings": slices.Concat(
		numberChecks(1, "largest message", 1, 1<<40),
		numberChecks(2, "open calls", 1, 1<<16),
		numberChecks(3, "stream window", 16<<10, 1<<30),
		numberChecks(4, "connection window", 16<<10, 1<<30),
		nameChecks(5, "codec"),
		nameChecks(6, "compressor"),
		[]check{
			{"none", nil, ""},
			{"unknown", setting(7, nil), ""},
			{"unknown, largest number", setting(1<<64-1, []byte("value")), ""},
			{"unknown, long", setting(7, make([]byte, 8192)), ""},
			{"unknown, too long", setting(7, make([]byte, 8193)), "setting of 8193 bytes"},
			{"number of a setting cut off", []byte{0x80}, "setting: truncated"},
			{"number of a setting too large", endless, "setting: truncated or oversized"},
			{"length missing", []byte{7}, "setting: truncated"},
			{"value cut off", join(uv(7), cutOff(9)), "setting of 9 bytes is cut off after 8"},
			{"a number twice", join(setting(2, uv(1)), setting(2, uv(2))), ""},
		},
	),
	"request": {
		{"empty", nil, "method name: truncated"},
		{"number too large", endless, "method name: truncated or oversized"},
		{"first number", join(uv(2), []byte{0, 0}), ""},
		{"last number", join(uv(2+4095), []byte{0, 0}), ""},
		{"number too high", join(uv(2+4096), []byte{0, 0}), "method name number 4096, limit 4096"},
		{"highest number", join(uv(1<<64-1), []byte{0, 0}), "limit 4096"},
		{"empty name", []byte{0, 0, 0, 0}, "empty method name"},
		{"empty literal name", []byte{1, 0, 0, 0}, "empty method name"},
		{"longest name", join([]byte{0}, sized(1024), []byte{0, 0}), ""},
		{"name too long", join([]byte{0}, sized(1025), []byte{0, 0}), "method name of 1025 bytes, limit 1024"},
		{"name cut off", join([]byte{0}, cutOff(20)), "method name of 20 bytes is cut off after 19"},
		{"mask missing", []byte{2}, "request head is cut off"},
		{"codec missing", []byte{2, 0}, "request head is cut off"},
		{"reserved bit 20", []byte{2, 0x20, 0}, "reserved bits 0x20"},
		{"reserved bit 40", []byte{2, 0x41, 0}, "reserved bits 0x41"},
		{"timeout missing", []byte{2, 0x01, 0}, "timeout: truncated"},
		{"timeout cut off", []byte{2, 0x01, 0, 0x80}, "timeout: truncated"},
		{"timeout too large", join([]byte{2, 0x01, 0}, endless), "timeout: truncated or oversized"},
		{"attempt missing", []byte{2, 0x02, 0}, "attempt: truncated"},
		{"compressor missing", []byte{2, 0x04, 0}, "compressor is cut off"},
		{"metadata missing", []byte{2, 0x08, 0}, "metadata: truncated"},
		{"no metadata", []byte{2, 0x08, 0, 0}, ""},
		{"longest metadata", join([]byte{2, 0x08, 0}, sized(16<<10)), ""},
		{"metadata too long", join([]byte{2, 0x08, 0}, sized(16<<10+1)), "metadata of 16385 bytes, limit 16384"},
		{"metadata cut off", join([]byte{2, 0x08, 0}, cutOff(300)), "metadata of 300 bytes is cut off after 299"},
		{"size missing", []byte{2, 0x10, 0}, "message size: truncated"},
		{"largest size", join([]byte{2, 0x10, 0}, uv(1<<64-1)), ""},
		{"size too large", join([]byte{2, 0x10, 0}, endless), "message size: truncated or oversized"},
		{"extension missing", []byte{2, 0x80, 0}, "extension: truncated"},
		{"empty extension", []byte{2, 0x80, 0, 0}, ""},
		{"longest extension", join([]byte{2, 0x80, 0}, sized(16<<10)), ""},
		{"extension too long", join([]byte{2, 0x80, 0}, sized(16<<10+1)), "extension of 16385 bytes"},
		{"extension cut off", join([]byte{2, 0x80, 0}, cutOff(2)), "extension of 2 bytes is cut off after 1"},
	},
	"response": {
		{"empty", nil, "empty response"},
		{"bare", []byte{0}, ""},
		{"reserved bit 10", []byte{0x10}, "reserved bits 0x10"},
		{"reserved bit 20", []byte{0x20}, "reserved bits 0x20"},
		{"reserved bit 40", []byte{0x44, 0, 0, 0}, "reserved bits 0x44"},
		{"status missing", []byte{0x01}, "status: truncated"},
		{"empty status", []byte{0x01, 0}, ""},
		{"longest status", join([]byte{0x01}, sized(16<<10)), ""},
		{"status too long", join([]byte{0x01}, sized(16<<10+1)), "status of 16385 bytes, limit 16384"},
		{"status cut off", join([]byte{0x01}, cutOff(5)), "status of 5 bytes is cut off after 4"},
		{"trailer missing", []byte{0x02}, "trailer: truncated"},
		{"longest trailer", join([]byte{0x02}, sized(16<<10)), ""},
		{"trailer too long", join([]byte{0x02}, sized(16<<10+1)), "trailer of 16385 bytes"},
		{"load missing", []byte{0x04}, "load: truncated"},
		{"load without queue", []byte{0x04, 1}, "load: truncated"},
		{"load without utilization", []byte{0x04, 1, 2}, "load report is cut off"},
		{"load beyond all bounds", join([]byte{0x04}, uv(1<<64-1), uv(1<<64-1), []byte{255}), ""},
		{"size missing", []byte{0x08}, "message size: truncated"},
		{"extension missing", []byte{0x80}, "extension: truncated"},
		{"extension too long", join([]byte{0x80}, sized(16<<10+1)), "extension of 16385 bytes"},
	},
	"status": {
		{"empty", nil, ""},
		{"message missing", []byte{5}, "status message: truncated"},
		{"empty message", []byte{5, 0}, ""},
		{"longest message", join([]byte{5}, sized(16<<10)), ""},
		{"message too long", join([]byte{5}, sized(16<<10+1)), "status message of 16385 bytes"},
		{"message cut off", join([]byte{5}, cutOff(4)), "status message of 4 bytes is cut off after 3"},
		{"detail without value", join([]byte{5, 0}, sized(3)), "detail: truncated"},
		{"detail type too long", join([]byte{5, 0}, sized(16<<10+1)), "detail type of 16385 bytes"},
		{"detail too long", join([]byte{5, 0}, sized(1), sized(16<<10+1)), "detail of 16385 bytes"},
		{"most details", join([]byte{5, 0}, bytes.Repeat([]byte{0, 0}, 32)), ""},
		{"too many details", join([]byte{5, 0}, bytes.Repeat([]byte{0, 0}, 33)), "more than 32 status details"},
		{"unknown code", []byte{0x7f, 0}, ""},
	},
	"metadata": {
		{"empty", nil, ""},
		{"empty value", join(sized(1), sized(0)), ""},
		{"empty key", join(sized(0), sized(1)), "metadata with an empty key"},
		{"key missing", []byte{0x80}, "metadata key: truncated"},
		{"value missing", sized(3), "metadata value: truncated"},
		{"key cut off", cutOff(3), "metadata key of 3 bytes is cut off after 2"},
		{"value cut off", join(sized(3), cutOff(3)), "metadata value of 3 bytes is cut off after 2"},
		{"longest key", join(sized(16<<10), sized(0)), ""},
		{"key too long", join(sized(16<<10+1), sized(0)), "metadata key of 16385 bytes"},
		{"value too long", join(sized(1), sized(16<<10+1)), "metadata value of 16385 bytes"},
		{"most pairs", bytes.Repeat(join(sized(1), sized(1)), 128), ""},
		{"too many pairs", bytes.Repeat(join(sized(1), sized(1)), 129), "more than 128 metadata pairs"},
	},
}

func header(length uint32) []byte {
	return append(binary.LittleEndian.AppendUint32(nil, length|1<<24), make([]byte, 8)...)
}

func numberChecks(id uint64, what string, low, high uint64) []check {
	bad := fmt.Sprintf("is no number from %d to %d", low, high)
	return []check{
		{what + ": least", setting(id, uv(low)), ""},
		{what + ": too small", setting(id, uv(low-1)), bad},
		{what + ": most", setting(id, uv(high)), ""},
		{what + ": too large", setting(id, uv(high+1)), bad},
		{what + ": empty", setting(id, nil), bad},
		{what + ": cut off", setting(id, []byte{0x80}), bad},
		{what + ": more than a number", setting(id, join(uv(low), []byte{0})), bad},
		{what + ": endless", setting(id, endless), bad},
	}
}

func nameChecks(id uint64, what string) []check {
	name := setting(id, []byte("x"))
	return []check{
		{what + ": no name", setting(id, nil), what + ": name of 0 bytes"},
		{what + ": longest name", setting(id, make([]byte, 32)), ""},
		{what + ": name too long", setting(id, make([]byte, 33)), what + ": name of 33 bytes"},
		{what + ": most names", bytes.Repeat(name, 64), ""},
		{what + ": too many names", bytes.Repeat(name, 65), "as number 65"},
	}
}

// TestLimits tries every length at zero, at its limit, past its limit and cut off.
// The error is a violation that names the cause, and takes no memory.
func TestLimits(t *testing.T) {
	for parser, list := range checks {
		for _, c := range list {
			t.Run(parser+"/"+c.name, func(t *testing.T) {
				err := parsers[parser](c.in)
				switch {
				case c.want == "" && err != nil:
					t.Errorf("got %v", err)
				case c.want != "" && (!errors.Is(err, wire.ErrViolation) || !strings.Contains(err.Error(), c.want)):
					t.Errorf("got %v, want a violation with %q", err, c.want)
				}
			})
		}
	}
}

// TestDeclaredLengthsTakeNoMemory declares far more than is there.
func TestDeclaredLengthsTakeNoMemory(t *testing.T) {
	inputs := map[string][]byte{
		"settings": join(uv(7), uv(8192)),
		"request":  join([]byte{2, 0x18, 0}, uv(16<<10)),
		"response": join([]byte{0x03}, uv(16<<10)),
		"status":   join([]byte{5}, uv(16<<10)),
		"metadata": uv(16 << 10),
	}
	for parser, in := range inputs {
		const runs, each = 100, 2 << 10
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range runs {
			if parsers[parser](in) == nil {
				t.Fatalf("%s: no error", parser)
			}
		}
		runtime.ReadMemStats(&after)
		if took := (after.TotalAlloc - before.TotalAlloc) / runs; took > each {
			t.Errorf("%s: %d bytes allocated for %d received", parser, took, len(in))
		}
	}
}

// TestHeadsCutOff cuts off heads with all fields, at every byte.
func TestHeadsCutOff(t *testing.T) {
	md := mustMetadata(tandem.Metadata{"key": {"value"}})
	heads := map[string][]byte{
		"request": wire.AppendRequest(nil, &wire.Request{
			Name: newName("Arith.Mul"), Codec: 1, Timeout: time.Hour, Attempt: 300, Compressor: 1, Metadata: md, Size: 1 << 30,
		}),
		"response": wire.AppendResponse(nil, &wire.Response{
			Status: encodeStatus(wire.Status{Code: tandem.NotFound, Message: "none"}), Trailer: md, HasLoad: true,
			Load: wire.Load{InFlight: 1000, Queued: 1000, Utilization: 50}, Size: 1 << 30,
		}),
	}
	for parser, head := range heads {
		for n := range head {
			if err := parsers[parser](head[:n]); !errors.Is(err, wire.ErrViolation) {
				t.Errorf("%s cut off after %d of %d bytes: %v", parser, n, len(head), err)
			}
		}
		if err := parsers[parser](head); err != nil {
			t.Errorf("%s: %v", parser, err)
		}
	}
}

// TestClamped checks values that the format allows but that are too large: they are
// reduced to their limits, not refused.
func TestClamped(t *testing.T) {
	var r wire.Request
	for in, want := range map[uint64]time.Duration{0: time.Microsecond, 1: time.Microsecond, 1<<64 - 1: 9007199254740 * time.Microsecond} {
		if _, err := wire.ParseRequest(join([]byte{2, 0x01, 0}, uv(in)), &r); err != nil || r.Timeout != want {
			t.Errorf("timeout of %d µs: got %v, %v", in, r.Timeout, err)
		}
	}
	if _, err := wire.ParseRequest(join([]byte{2, 0x02, 0}, uv(1<<40)), &r); err != nil || r.Attempt != 1<<20 {
		t.Errorf("attempt: got %d, %v", r.Attempt, err)
	}
	var resp wire.Response
	want := wire.Load{InFlight: 1<<32 - 1, Queued: 1<<32 - 1, Utilization: 100}
	if _, err := wire.ParseResponse(join([]byte{0x04}, uv(1<<32), uv(1<<40), []byte{101}), &resp); err != nil || resp.Load != want {
		t.Errorf("load: got %+v, %v", resp.Load, err)
	}
	if s, err := wire.ParseStatus([]byte{0x80 | 17, 0}); err != nil || s.Code != tandem.Unknown || !s.NotExecuted {
		t.Errorf("code: got %+v, %v", s, err)
	}
}
