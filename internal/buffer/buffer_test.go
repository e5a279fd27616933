package buffer

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Whole returns all of a message, however it was appended, and no more memory was
// taken than a piece ahead.
func TestBufferPutsPiecesTogether(t *testing.T) {
	const block = 64 << 10
	for _, size := range []int{1, block, block + 1, PieceSize - 1, PieceSize, PieceSize + 1, 1<<20 + 3, 5 * PieceSize} {
		want := make([]byte, size)
		for i := range want {
			want[i] = byte(rand.Uint32())
		}
		b := Get()
		for have := 0; have < size; {
			n := min(1+rand.IntN(block), size-have)
			b.Append(want[have:have+n], size-have)
			have += n
			if taken := cap(b.B) + len(b.pieces)*PieceSize; taken > 2*have+2*PieceSize {
				t.Fatalf("%d bytes of %d have taken %d", have, size, taken)
			}
		}
		if got := b.Whole(); !bytes.Equal(got, want) || !bytes.Equal(b.Whole(), want) {
			t.Errorf("a message of %d bytes is not what arrived", size)
		}
		b.Put()
	}
}

// A buffer is empty when it is reused, however it was left, and Keep does not keep one that
// has grown.
func TestReusedBuffersAreEmpty(t *testing.T) {
	for range 100 {
		b := Get()
		if len(b.B) != 0 || len(b.Whole()) != 0 {
			t.Fatalf("a buffer has %d bytes", len(b.Whole()))
		}
		b.Append(make([]byte, 64<<10), 3*PieceSize)
		if b = b.Keep(); b != nil && len(b.Whole()) != 0 {
			t.Fatalf("a buffer that was kept has %d bytes", len(b.Whole()))
		}
		b.Put()
		out := GetOut()
		if len(out.B) != 0 {
			t.Fatalf("a buffer for writing has %d bytes", len(out.B))
		}
		out.B = append(out.B, 1)
		out.Put()
	}
	large := Get()
	large.B = make([]byte, maxKept+1)
	if large.Keep() != nil {
		t.Error("a buffer that has grown was kept")
	}
	var none *Buffer
	none.Put()
	if none.Keep() != nil {
		t.Error("something was kept of no buffer")
	}
}

// Buffers to read into have one of two sizes, and come back as what they were.
func TestReadBuffers(t *testing.T) {
	for _, large := range []bool{false, true, false, true} {
		b := GetRead(large)
		if want := map[bool]int{false: SmallRead, true: LargeRead}[large]; len(b) != want {
			t.Fatalf("large: %t, and it has %d bytes instead of %d", large, len(b), want)
		}
		PutRead(b)
	}
}
