package msgpack_test

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/codec/codectest"
	"github.com/tandem-rpc/tandem/codec/msgpack"
)

type wide struct{ A, B, C, D, E, F, G, H int }

type holder struct {
	Name  string
	Wides []wide `msgpack:"wides"`
	Far   *wide
	Tree  any
	Map   map[string]wide
	When  time.Time
}

// expected is a Memory that records the bytes of Expect.
type expected int64

func (e *expected) Expect(n int64) error {
	*e += expected(n)
	return nil
}

func TestEstimates(t *testing.T) {
	const n = 20_000
	many := func(s string) string {
		b := binary.BigEndian.AppendUint32([]byte{0xdd}, n)
		for range n {
			b = append(b, s...)
		}
		return string(b)
	}
	keys := binary.BigEndian.AppendUint32([]byte{0xdf}, n)
	for i := range n {
		name := time.Duration(i).String()
		keys = append(append(append(keys, 0xd9, byte(len(name))), name...), "\x81\xa1A\x01"...)
	}
	for name, row := range map[string]struct {
		src string
		v   any
	}{
		"empty structs":     {many("\x80"), new([]wide)},
		"structs as arrays": {many("\x98\x01\x01\x01\x01\x01\x01\x01\x01"), new([]wide)},
		"pointers":          {many("\x80"), new([]*wide)},
		"numbers":           {many("\x01"), new([]int)},
		"anything, objects": {many("\x81\xa1a\x01"), new(any)},
		"anything, lists":   {many("\x90"), new(any)},
		"anything, numbers": {many("\x01"), new([]any)},
		"texts":             {many("\xa8abcdefgh"), new([]string)},
		"times":             {many("\xd6\xff\x00\x00\x00\x01"), new([]time.Time)},
		"a field":           {"\x81\xa5wides" + many("\x80"), new(holder)},
		"a field, long":     {"\x81\xd9\x05wides" + many("\x80"), new(holder)},
		"a map":             {string(keys), new(map[string]wide)},
		"a map of anything": {string(keys), new(any)},
		"holders":           {many("\x82\xa4Name\xa1x\xa3Far\x80"), new([]holder)},
	} {
		var e expected
		var err error
		got := codectest.Allocated(func() { err = codec.DecodeWithin(msgpack.Codec(), []byte(row.src), row.v, &e) })
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		t.Logf("%s: %d bytes: estimate %d, allocated %d", name, len(row.src), e, got)
		if uint64(e) < got/5 || uint64(e) > 4*got+uint64(len(row.src)) {
			t.Errorf("%s: estimate %d, allocated %d", name, e, got)
		}
	}
}
