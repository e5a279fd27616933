package zstd_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	other "github.com/klauspost/compress/zstd"
	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem/compress"
	"github.com/tandem-rpc/tandem/compress/compresstest"
	"github.com/tandem-rpc/tandem/compress/zstd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCompressor(t *testing.T) { compresstest.Run(t, zstd.Compressor()) }

// streamed returns a frame that does not declare its size.
func streamed(t *testing.T, src []byte, options ...other.EOption) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := other.NewWriter(&b, append(options, other.WithEncoderConcurrency(1))...)
	if err != nil {
		t.Fatal(err)
	}
	for part := src; len(part) > 0; {
		n := min(len(part), 1<<18)
		if _, err := w.Write(part[:n]); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		part = part[n:]
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestUnknownSize(t *testing.T) {
	c := zstd.Compressor()
	for name, src := range compresstest.Samples() {
		if len(src) == 0 {
			continue // an empty stream has no frame
		}
		packed := streamed(t, src)
		got, err := c.Decompress([]byte("head"), packed, len(src))
		if err != nil || !bytes.Equal(got[4:], src) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
		if _, err := c.Decompress(nil, packed, len(src)-1); !errors.Is(err, compress.ErrTooLarge) {
			t.Errorf("%s: error %v, want ErrTooLarge", name, err)
		}
	}
}

func TestUnknownSizeBomb(t *testing.T) {
	const limit = 4 << 20
	bomb := streamed(t, make([]byte, 64<<20))
	var err error
	got := compresstest.Allocated(func() { _, err = zstd.Compressor().Decompress(nil, bomb, limit) })
	if !errors.Is(err, compress.ErrTooLarge) || got > 4*limit+1<<20 {
		t.Fatalf("%d bytes allocated, error %v", got, err)
	}
}

func TestRefused(t *testing.T) {
	single := []byte{0x28, 0xb5, 0x2f, 0xfd, 0xa0} // magic, single segment, size of 4 bytes
	last := []byte{1, 0, 0}                        // an empty raw block
	ok := streamed(t, []byte("hello"))
	empty, err := zstd.Compressor().Compress(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, src := range map[string][]byte{
		"a frame and an empty one":     append(bytes.Clone(ok), empty...),
		"nothing":                      {},
		"not a frame":                  []byte("hello"),
		"a size its blocks can't hold": append(append(bytes.Clone(single), 0, 0, 0x40, 0), last...),
		"two frames":                   append(bytes.Clone(ok), ok...),
		"a skippable frame":            {0x50, 0x2a, 0x4d, 0x18, 1, 0, 0, 0, 'x'},
		"a window of 16 MiB":           streamed(t, make([]byte, 1<<20), other.WithWindowSize(16<<20)),
		"a dictionary":                 {0x28, 0xb5, 0x2f, 0xfd, 0x21, 7, 0, 1, 0, 0},
		"a reserved block":             {0x28, 0xb5, 0x2f, 0xfd, 0x20, 0, 7, 0, 0},
	} {
		var err error
		got := compresstest.Allocated(func() { _, err = zstd.Compressor().Decompress(nil, src, 32<<20) })
		if err == nil || got > 1<<20 {
			t.Errorf("%s: %d bytes allocated, error %v", name, got, err)
		}
	}
}

func FuzzZstd(f *testing.F) { compresstest.Fuzz(f, zstd.Compressor()) }

func BenchmarkZstd(b *testing.B) { compresstest.Benchmark(b, zstd.Compressor()) }

func Example() {
	c := zstd.Compressor()
	packed, _ := c.Compress(nil, []byte("hello"))
	message, err := c.Decompress(nil, packed, 100)
	fmt.Printf("%s: %s %v\n", c.Name(), message, err)
	// Output: zstd: hello <nil>
}
