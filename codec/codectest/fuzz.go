package codectest

import (
	"reflect"
	"testing"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/codec"
)

// Fuzz decodes what the fuzzer makes of the encoded samples, into each of their
// types. It fails on a panic, if decoding n bytes allocates more than perByte times n
// plus 256 KiB, or if a decoded value can't be encoded.
func Fuzz(f *testing.F, c tandem.Codec, perByte int, samples ...any) {
	for _, v := range samples {
		src, err := codec.Append(c, nil, v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src)
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		for _, v := range samples {
			var err error
			got := fresh(v)
			n := Allocated(func() { err = codec.Decode(c, src, got) })
			if limit := uint64(perByte*len(src) + 256<<10); n > limit {
				t.Errorf("%T: %d bytes allocated for %d, limit %d", v, n, len(src), limit)
			}
			if err == nil {
				encode(t, c, got)
			}
		}
	})
}

// Benchmark measures Append, with room for the result, and Decode of v, a
// pointer, into a new value.
func Benchmark(b *testing.B, c tandem.Codec, v any) {
	src, err := codec.Append(c, nil, v)
	if err != nil {
		b.Fatal(err)
	}
	room := make([]byte, 0, 2*len(src))
	b.Run("Append", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := codec.Append(c, room, v); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(len(src)), "bytes")
	})
	b.Run("Decode", func(b *testing.B) {
		b.ReportAllocs()
		t := reflect.TypeOf(v).Elem()
		for b.Loop() {
			if err := codec.Decode(c, src, reflect.New(t).Interface()); err != nil {
				b.Fatal(err)
			}
		}
	})
}
