package compresstest

import (
	"testing"

	"github.com/tandem-rpc/tandem"
)

// fuzzLimit is the limit under which fuzzed messages are decompressed, in bytes.
const fuzzLimit = 1 << 16

// Fuzz decompresses what the fuzzer makes of the samples. It fails if the output
// exceeds the limit, or if more memory is taken than [Bound].
func Fuzz(f *testing.F, c tandem.Compressor) {
	for _, src := range Samples() {
		packed, err := c.Compress(nil, src)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(packed)
	}
	f.Fuzz(func(t *testing.T, packed []byte) {
		var out []byte
		got := Allocated(func() { out, _ = c.Decompress(nil, packed, fuzzLimit) })
		if len(out) > fuzzLimit {
			t.Fatalf("%d bytes, limit %d", len(out), fuzzLimit)
		}
		if limit := Bound(fuzzLimit) + 16*uint64(len(packed)); got > limit {
			t.Fatalf("%d bytes allocated, limit %d", got, limit)
		}
	})
}

// Benchmark measures Compress and Decompress on a text of 600 bytes, with room
// for the result.
func Benchmark(b *testing.B, c tandem.Compressor) {
	src := Samples()["text"]
	packed, err := c.Compress(nil, src)
	if err != nil {
		b.Fatal(err)
	}
	room := make([]byte, 0, 4*len(src))
	b.Run("Compress", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := c.Compress(room, src); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(len(packed)), "bytes")
	})
	b.Run("Decompress", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := c.Decompress(room, packed, len(src)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
