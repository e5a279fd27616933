package web

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// What is read is what was appended, whatever the sizes.
func TestHTTP2Pieces(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var p http2Pieces
	var want, got []byte
	for range 10_000 {
		b := make([]byte, random.IntN([]int{4, 100, 3000, pieceBytes + 1}[random.IntN(4)]))
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		switch random.IntN(40) {
		case 0:
			if n := p.drop(); n != len(want)-len(got) {
				t.Fatalf("dropped %d bytes, want %d", n, len(want)-len(got))
			}
			want, got = nil, nil
		case 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19:
			p.append(b)
			want = append(want, b...)
		default:
			got = append(got, b[:p.read(b)]...)
		}
		if p.length != len(want)-len(got) || !bytes.HasPrefix(want, got) {
			t.Fatalf("%d bytes are left, want %d; the same: %v", p.length, len(want)-len(got), bytes.HasPrefix(want, got))
		}
	}
}
