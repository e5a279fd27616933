package wire_test

import (
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/wire"
)

// TestConstants pins the numbers of the protocol. A change here is a change of
// the protocol: see "How the protocol grows" in docs/reference/protocol.md. Numbers that
// are not exported are pinned by the golden vectors.
func TestConstants(t *testing.T) {
	for _, c := range []struct {
		name      string
		got, want uint64
	}{
		{"Version", wire.Version, 1},
		{"PrefaceLen", wire.PrefaceLen, 8},
		{"MaxSettings", wire.MaxSettings, 8192},
		{"HeaderLen", wire.HeaderLen, 12},
		{"MaxBlock", wire.MaxBlock, 65536},
		{"DefaultMaxMessage", wire.DefaultMaxMessage, 4194304},
		{"DefaultMaxOpen", wire.DefaultMaxOpen, 4096},
		{"MaxOpenLimit", wire.MaxOpenLimit, 65536},
		{"DefaultStreamWindow", wire.DefaultStreamWindow, 262144},
		{"DefaultConnWindow", wire.DefaultConnWindow, 4194304},
		{"MinWindow", wire.MinWindow, 16384},
		{"MaxWindow", wire.MaxWindow, 1073741824},
		{"MaxMetadata", wire.MaxMetadata, 16384},
		{"MaxMetadataPairs", wire.MaxMetadataPairs, 128},
		{"MaxName", wire.MaxName, 1024},
		{"MaxNames", wire.MaxNames, 4096},
		{"MaxNameBytes", wire.MaxNameBytes, 262144},
		{"MaxStatus", wire.MaxStatus, 16384},
		{"MaxDetails", wire.MaxDetails, 32},

		{"TypeRequest", uint64(wire.TypeRequest), 1},
		{"TypeResponse", uint64(wire.TypeResponse), 2},
		{"TypeData", uint64(wire.TypeData), 3},
		{"TypeCancel", uint64(wire.TypeCancel), 4},
		{"TypeReset", uint64(wire.TypeReset), 5},
		{"TypeWindow", uint64(wire.TypeWindow), 6},
		{"TypePing", uint64(wire.TypePing), 7},
		{"TypePong", uint64(wire.TypePong), 8},
		{"TypeGoAway", uint64(wire.TypeGoAway), 9},

		{"FlagEnd", uint64(wire.FlagEnd), 0x01},
		{"FlagLast", uint64(wire.FlagLast), 0x02},
		{"FlagOneWay", uint64(wire.FlagOneWay), 0x04},
		{"FlagStream", uint64(wire.FlagStream), 0x08},
		{"FlagCompressed", uint64(wire.FlagCompressed), 0x10},
		{"FlagAnswer", uint64(wire.FlagAnswer), 0x80},

		{"ReasonDrain", uint64(wire.ReasonDrain), 0},
		{"ReasonViolation", uint64(wire.ReasonViolation), 1},
		{"ReasonVersion", uint64(wire.ReasonVersion), 2},
		{"ReasonOverload", uint64(wire.ReasonOverload), 3},
	} {
		if c.got != c.want {
			t.Errorf("%s is %d, want %d", c.name, c.got, c.want)
		}
	}
	if wire.Magic != "\x93TND" {
		t.Errorf("Magic is %q", wire.Magic)
	}
}

// TestFirstByte checks that the first byte of a connection belongs to no other
// protocol, so that a port can be shared.
func TestFirstByte(t *testing.T) {
	first := wire.Magic[0]
	if first < 0x83 || first > 0xbf {
		t.Errorf("%#x is a UTF-8 lead byte, an ASCII character, a gob length, or Thrift's 80 or 82", first)
	}
}

// benchmarkMessage is the message size with which frameworks of this kind are compared, in bytes.
const benchmarkMessage = 581

// TestOverhead checks that a message takes at most 20 bytes more, in each direction,
// once a method's name is known: for each of the 4,096 methods, with a deadline of
// 5 s, and with a load report of a busy server.
func TestOverhead(t *testing.T) {
	const most = 20
	message := make([]byte, benchmarkMessage)
	for _, number := range []int{0, 125, 126, wire.MaxNames - 1} {
		e := request(wire.FlagEnd, later, wire.Request{Name: knownName(number), Codec: 63, Timeout: 5 * time.Second}, string(message))
		if n := len(e.append(nil)) - benchmarkMessage; n > most {
			t.Errorf("request of method number %d: %d bytes of overhead", number, n)
		}
	}
	for _, load := range []wire.Load{{}, {InFlight: 100, Queued: 100, Utilization: 50}, {InFlight: 16_383, Queued: 16_383, Utilization: 100}} {
		e := response(both, later, wire.Response{HasLoad: true, Load: load}, string(message))
		if n := len(e.append(nil)) - benchmarkMessage; n > most {
			t.Errorf("response with load %+v: %d bytes of overhead", load, n)
		}
	}
}

// TestCodesFit checks that every code leaves room for the bit "not executed".
func TestCodesFit(t *testing.T) {
	for code := tandem.OK; code.Valid(); code++ {
		for _, notExecuted := range []bool{false, true} {
			s, err := wire.ParseStatus(encodeStatus(wire.Status{Code: code, NotExecuted: notExecuted}))
			if err != nil || s.Code != code || s.NotExecuted != notExecuted {
				t.Errorf("%v, not executed %v: got %+v, %v", code, notExecuted, s, err)
			}
		}
	}
}
