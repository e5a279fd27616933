// Package compresstest (experimental) checks that a compressor keeps the contract of
// [tandem.Compressor]. It is for tests of compressors, also of other modules:
//
//	func TestCompressor(t *testing.T) { compresstest.Run(t, lz4.Compressor()) }
package compresstest

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/compress"
)

// Run runs the checks as subtests.
func Run(t *testing.T, c tandem.Compressor) {
	t.Run("Name", func(t *testing.T) { checkName(t, c) })
	for name, src := range Samples() {
		t.Run(name, func(t *testing.T) {
			t.Run("RoundTrip", func(t *testing.T) { checkRoundTrip(t, c, src) })
			t.Run("Limit", func(t *testing.T) { checkLimit(t, c, src) })
			t.Run("Damaged", func(t *testing.T) { checkDamaged(t, c, src) })
		})
	}
	t.Run("Bomb", func(t *testing.T) { checkBomb(t, c) })
	t.Run("Concurrent", func(t *testing.T) { checkConcurrent(t, c) })
}

// Samples returns messages to compress, by name: empty, short and long ones, of high
// and low redundancy.
func Samples() map[string][]byte {
	noise := make([]byte, 50_000)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	return map[string][]byte{
		"empty": {},
		"byte":  {'x'},
		"text":  []byte(strings.Repeat("all happy families are alike; ", 20)),
		"zeros": make([]byte, 200_000),
		"noise": noise,
	}
}

// Allocated returns how many bytes f allocated, on the heap and in total. Other
// goroutines are included, so bounds need some slack.
func Allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Bound returns how many bytes Decompress may allocate under a limit: output that
// doubles up to the limit takes twice the limit in all; state is some hundred
// kilobytes.
func Bound(limit int) uint64 { return 2*uint64(limit) + 1<<20 }

func pack(t *testing.T, c tandem.Compressor, src []byte) []byte {
	t.Helper()
	b, err := c.Compress(nil, src)
	if err != nil {
		t.Fatalf("Compress: %v", err)
	}
	return b
}

func checkName(t *testing.T, c tandem.Compressor) {
	if n := len(c.Name()); n == 0 || n > 32 {
		t.Fatalf("name %q has %d bytes, allowed 1 to 32", c.Name(), n)
	}
}

// checkRoundTrip compresses and decompresses more than once, as state is reused, and
// with slices that have bytes already, with and without room for more.
func checkRoundTrip(t *testing.T, c tandem.Compressor, src []byte) {
	for _, spare := range []int{0, 1, 1 << 20} {
		packed, err := c.Compress(slices.Grow([]byte("head"), spare), src)
		if err != nil || !bytes.HasPrefix(packed, []byte("head")) {
			t.Fatalf("Compress = %.20q, %v", packed, err)
		}
		got, err := c.Decompress(slices.Grow([]byte("more"), spare), packed[4:], len(src))
		if err != nil {
			t.Fatalf("Decompress: %v", err)
		}
		if !bytes.Equal(got, append([]byte("more"), src...)) {
			t.Fatalf("%d bytes became %d others", len(src), len(got)-4)
		}
	}
}

func checkLimit(t *testing.T, c tandem.Compressor, src []byte) {
	packed := pack(t, c, src)
	for _, limit := range []int{len(src) - 1, len(src) / 2, 1, 0, -1} {
		if limit >= len(src) || len(src) == 0 {
			continue
		}
		got, err := c.Decompress([]byte("head"), packed, limit)
		if !errors.Is(err, compress.ErrTooLarge) {
			t.Fatalf("limit %d for %d bytes: error %v, want ErrTooLarge", limit, len(src), err)
		}
		if string(got) != "head" {
			t.Fatalf("limit %d: the slice came back as %.20q", limit, got)
		}
	}
}

// checkDamaged cuts off the message, which must fail, and changes bytes in it, which
// must not cause a panic or take much memory.
func checkDamaged(t *testing.T, c tandem.Compressor, src []byte) {
	packed := pack(t, c, src)
	if _, err := c.Decompress(nil, append(bytes.Clone(packed), "tail"...), len(src)); err == nil {
		t.Fatal("bytes after the end were accepted")
	}
	step := len(packed)/20 + 1
	for i := 0; i < len(packed); i += step {
		if _, err := c.Decompress(nil, packed[:i], len(src)); err == nil {
			t.Fatalf("the first %d of %d bytes were accepted", i, len(packed))
		}
		for _, x := range []byte{0x00, 0x7f, 0x80, 0xff, packed[i] + 1} {
			b := bytes.Clone(packed)
			b[i] = x
			got, err := c.Decompress(nil, b, len(src))
			if len(got) > len(src) {
				t.Fatalf("byte %d made %#x: %d bytes, limit %d (%v)", i, x, len(got), len(src), err)
			}
		}
	}
}

func checkBomb(t *testing.T, c tandem.Compressor) {
	const limit = 4 << 20
	bomb := pack(t, c, make([]byte, 64<<20))
	var err error
	got := Allocated(func() { _, err = c.Decompress(nil, bomb, limit) })
	if !errors.Is(err, compress.ErrTooLarge) {
		t.Fatalf("error %v, want ErrTooLarge", err)
	}
	if got > Bound(limit) {
		t.Fatalf("%d bytes allocated, at most %d are allowed", got, Bound(limit))
	}
}

func checkConcurrent(t *testing.T, c tandem.Compressor) {
	src := Samples()["text"]
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 20 {
				packed, err := c.Compress(nil, src)
				if err != nil {
					t.Errorf("Compress: %v", err)
				}
				got, err := c.Decompress(nil, packed, len(src))
				if err != nil || !bytes.Equal(got, src) {
					t.Errorf("Decompress: %d bytes, %v", len(got), err)
				}
			}
		})
	}
	wg.Wait()
}
