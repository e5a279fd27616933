package snappy_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/tandem-rpc/tandem/compress"
	"github.com/tandem-rpc/tandem/compress/compresstest"
	"github.com/tandem-rpc/tandem/compress/snappy"
)

func TestCompressor(t *testing.T) { compresstest.Run(t, snappy.Compressor()) }

// TestDeclaredSize decompresses five bytes that declare a large size, within the limit and above it.
func TestDeclaredSize(t *testing.T) {
	c := snappy.Compressor()
	for _, claim := range []uint64{1 << 20, 4 << 20, 64 << 20, 1<<32 - 1} {
		src := append(binary.AppendUvarint(nil, claim), 0)
		var err error
		got := compresstest.Allocated(func() { _, err = c.Decompress(nil, src, 4<<20) })
		if err == nil || got > 64<<10 {
			t.Errorf("%d claimed: %d bytes allocated, error %v", claim, got, err)
		}
		if claim > 4<<20 && !errors.Is(err, compress.ErrTooLarge) {
			t.Errorf("%d claimed: error %v, want ErrTooLarge", claim, err)
		}
	}
}

// TestGolden is the example that the format's description gives, so that other
// implementations agree: a literal, then a copy that overlaps itself.
func TestGolden(t *testing.T) {
	packed := []byte{9, 2 << 2, 'a', 'b', 'c', (6-4)<<2 | 1, 3}
	got, err := snappy.Compressor().Decompress(nil, packed, 100)
	if err != nil || string(got) != "abcabcabc" {
		t.Fatalf("%q, %v", got, err)
	}
}

func FuzzSnappy(f *testing.F) { compresstest.Fuzz(f, snappy.Compressor()) }

func BenchmarkSnappy(b *testing.B) { compresstest.Benchmark(b, snappy.Compressor()) }

func Example() {
	c := snappy.Compressor()
	packed, _ := c.Compress(nil, []byte("hello"))
	message, err := c.Decompress(nil, packed, 100)
	fmt.Printf("%s: %s %v\n", c.Name(), message, err)
	// Output: snappy: hello <nil>
}
