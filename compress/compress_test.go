package compress_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"io"
	"testing"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/compress"
	"github.com/tandem-rpc/tandem/compress/compresstest"
)

func TestDeflate(t *testing.T) { compresstest.Run(t, compress.Deflate()) }
func TestGzip(t *testing.T)    { compresstest.Run(t, compress.Gzip()) }

// TestStandardLibraryReads checks that the standard library reads the output: the names are
// those of formats that other programs know.
func TestStandardLibraryReads(t *testing.T) {
	src := compresstest.Samples()["text"]
	readers := map[tandem.Compressor]func(io.Reader) (io.Reader, error){
		compress.Deflate(): func(r io.Reader) (io.Reader, error) { return flate.NewReader(r), nil },
		compress.Gzip():    func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
	}
	for c, open := range readers {
		packed, err := c.Compress(nil, src)
		if err != nil {
			t.Fatal(err)
		}
		r, err := open(bytes.NewReader(packed))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, src) {
			t.Errorf("%s: %q, %v", c.Name(), got, err)
		}
	}
}

func TestGzipChecksum(t *testing.T) {
	c := compress.Gzip()
	packed, err := c.Compress(nil, []byte("hello"))
	if err != nil {
		t.Fatal(err)
	}
	packed[len(packed)-8]++
	if _, err := c.Decompress(nil, packed, 100); !errors.Is(err, gzip.ErrChecksum) {
		t.Fatalf("error %v, want %v", err, gzip.ErrChecksum)
	}
}

// TestGzipMembers checks that a second member counts against the same limit.
func TestGzipMembers(t *testing.T) {
	c := compress.Gzip()
	packed, err := c.Compress(nil, []byte("hello"))
	if err != nil {
		t.Fatal(err)
	}
	packed = append(packed, packed...)
	if got, err := c.Decompress(nil, packed, 10); err != nil || string(got) != "hellohello" {
		t.Fatalf("%q, %v", got, err)
	}
	if _, err := c.Decompress(nil, packed, 9); !errors.Is(err, compress.ErrTooLarge) {
		t.Fatalf("error %v, want ErrTooLarge", err)
	}
}

// TestRoom checks that no room is made beyond the limit.
func TestRoom(t *testing.T) {
	src := compresstest.Samples()["zeros"]
	c := compress.Deflate()
	packed, err := c.Compress(nil, src)
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Decompress(nil, packed, len(src))
	if err != nil || cap(got) > len(src) {
		t.Fatalf("room for %d bytes under a limit of %d, %v", cap(got), len(src), err)
	}
}

// TestSteadyState checks that nothing is allocated when the caller has room and the
// pools are filled.
func TestSteadyState(t *testing.T) {
	src := compresstest.Samples()["text"]
	for _, c := range []tandem.Compressor{compress.Deflate(), compress.Gzip()} {
		packed, err := c.Compress(nil, src)
		if err != nil {
			t.Fatal(err)
		}
		room := make([]byte, 0, 2*len(src))
		n := testing.AllocsPerRun(100, func() {
			if _, err := c.Compress(room, src); err != nil {
				t.Error(err)
			}
			if _, err := c.Decompress(room, packed, len(src)); err != nil {
				t.Error(err)
			}
		})
		if n > 1 && !raceEnabled {
			t.Errorf("%s: %v allocations", c.Name(), n)
		}
	}
}

func FuzzDeflate(f *testing.F) { compresstest.Fuzz(f, compress.Deflate()) }
func FuzzGzip(f *testing.F)    { compresstest.Fuzz(f, compress.Gzip()) }

func BenchmarkDeflate(b *testing.B) { compresstest.Benchmark(b, compress.Deflate()) }
func BenchmarkGzip(b *testing.B)    { compresstest.Benchmark(b, compress.Gzip()) }
