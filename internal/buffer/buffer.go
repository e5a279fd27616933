// Package buffer pools the memory of messages and of reads. It is experimental, and only
// for tandem's own packages.
//
// The pools belong to the process: memory that was just used is in the processor's cache,
// and a thousand clients need no more memory than the calls that run at once.
package buffer

import (
	"slices"
	"sync"
)

// Larger and smaller buffers are left to the garbage collector. A message's buffer is
// usually small: in one pool with the buffers for writing, every call would end up with a
// large one.
const (
	minPooled    = 1 << 10
	maxPooledOut = 4 << 20
	maxKept      = 8 << 10 // the largest that Keep leaves to its user

	// MaxPooled is the largest buffer of Get that is pooled; those of GetOut may be larger.
	MaxPooled = 64 << 10
)

var (
	messages sync.Pool // *Buffer, each for one message
	outs     sync.Pool // *Buffer, for writing: few, but large
	pieces   sync.Pool // *piece, of large messages
)

// A Buffer is a slice that can be pooled without allocating. A large message that arrives
// is kept in pieces, until Whole puts them together. A Buffer is for one goroutine at a
// time.
type Buffer struct {
	B []byte // what is in the buffer; without the pieces, if there are any

	pieces []*piece
	last   int  // bytes in the last piece; the others are full
	out    bool // from GetOut
}

// PieceSize is the length in bytes up to which a Buffer holds a message in one piece.
const PieceSize = 256 << 10

// piece is a part of a large message.
type piece [PieceSize]byte

// Get returns an empty buffer for a message.
func Get() *Buffer {
	if b, ok := messages.Get().(*Buffer); ok {
		return b
	}
	return &Buffer{B: make([]byte, 0, minPooled)}
}

// GetOut returns an empty buffer for the frames of many messages.
func GetOut() *Buffer {
	if b, ok := outs.Get().(*Buffer); ok {
		return b
	}
	return &Buffer{B: make([]byte, 0, 16<<10), out: true}
}

// Put gives the buffer back: neither it nor its bytes may be used afterwards. It may be nil.
func (b *Buffer) Put() {
	if b == nil {
		return
	}
	b.dropPieces()
	switch {
	case b.out && cap(b.B) <= maxPooledOut:
		b.B = b.B[:0]
		outs.Put(b)
	case !b.out && cap(b.B) >= minPooled && cap(b.B) <= MaxPooled:
		b.B = b.B[:0]
		messages.Put(b)
	}
}

// Keep empties the buffer and returns it, for its user to reuse. A buffer that has grown
// too large is given back, and Keep returns nil, as for nil.
func (b *Buffer) Keep() *Buffer {
	if b == nil || cap(b.B) > maxKept {
		b.Put()
		return nil
	}
	b.dropPieces()
	b.B = b.B[:0]
	return b
}

// Append appends p, a part of a message of which left bytes are still to come, p included.
// It takes little memory at a time and never copies what a large message has already, since
// other calls of the connection wait meanwhile.
func (b *Buffer) Append(p []byte, left int) {
	if b.pieces == nil && cap(b.B)-len(b.B) < len(p) && left <= PieceSize {
		b.B = slices.Grow(b.B, left)
	}
	if b.pieces == nil && cap(b.B)-len(b.B) >= len(p) {
		b.B = append(b.B, p...)
		return
	}
	for len(p) > 0 {
		if b.pieces == nil || b.last == PieceSize {
			b.pieces, b.last = append(b.pieces, takePiece()), 0
		}
		n := copy(b.pieces[len(b.pieces)-1][b.last:], p)
		p, b.last = p[n:], b.last+n
	}
}

// Whole puts the pieces together and returns all bytes, which are in B from then on. A
// large message takes long, so the goroutine that handles the message must call it, not the
// reader.
func (b *Buffer) Whole() []byte {
	if b.pieces == nil {
		return b.B
	}
	full := len(b.pieces) - 1
	all := make([]byte, 0, len(b.B)+full*PieceSize+b.last)
	all = append(all, b.B...)
	for _, p := range b.pieces[:full] {
		all = append(all, p[:]...)
	}
	all = append(all, b.pieces[full][:b.last]...)
	b.dropPieces()
	b.B = all
	return all
}

func (b *Buffer) dropPieces() {
	for _, p := range b.pieces {
		pieces.Put(p)
	}
	b.pieces, b.last = nil, 0
}

func takePiece() *piece {
	if p, ok := pieces.Get().(*piece); ok {
		return p
	}
	return new(piece)
}

// Sizes of read buffers, in bytes. A large one takes any frame. A reader whose reads are
// small, as on each of thousands of connections, has a small one: hundreds of readers may
// hold one at the same time, above all while the garbage collector delays goroutines that
// allocate and has emptied the pools.
const (
	LargeRead = 68<<10 + 64 // the longest frame, and 4 KiB
	SmallRead = 16 << 10
)

var largeReads, smallReads sync.Pool // *[LargeRead]byte, *[SmallRead]byte

// GetRead returns a buffer of LargeRead or SmallRead bytes to read into. It still holds
// bytes of its last use.
func GetRead(large bool) []byte {
	if large {
		if b, ok := largeReads.Get().(*[LargeRead]byte); ok {
			return b[:]
		}
		return new([LargeRead]byte)[:]
	}
	if b, ok := smallReads.Get().(*[SmallRead]byte); ok {
		return b[:]
	}
	return new([SmallRead]byte)[:]
}

// PutRead gives back a buffer of GetRead.
func PutRead(b []byte) {
	if len(b) == SmallRead {
		smallReads.Put((*[SmallRead]byte)(b))
		return
	}
	largeReads.Put((*[LargeRead]byte)(b))
}
