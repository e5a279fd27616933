package session

import (
	"slices"
	"sync"
)

// What is used again is the process's, not an Env's: what was just used is in
// the processor's cache, and a thousand clients need no more than run at once.
var (
	buffers     sync.Pool // *buffer, for a message each
	outBuffers  sync.Pool // *buffer, for what is to be written: few, but large
	readBuffers sync.Pool // *readBuffer
	smallReads  sync.Pool // *smallReadBuffer
	pieces      sync.Pool // *piece, of large messages
	inbounds    sync.Pool // *Inbound
	pendings    sync.Pool // *Pending
	outgoings   sync.Pool // *Outgoing, with a Pending
)

// buffer is a slice that can be pooled without allocating. A message that
// arrives and is large goes on in pieces, until whole puts them together.
type buffer struct {
	b      []byte
	pieces []*piece
	last   int  // bytes in the last piece; the others are full
	out    bool // from outBuffers
}

// piece is a part of a large message.
type piece [256 << 10]byte

// A readBuffer takes any frame. A reader that gets little at a time, as each of
// thousands of connections does, has a smaller one: hundreds may hold one at a time,
// above all while the collector makes those wait that allocate, and has taken what was
// pooled.
type (
	readBuffer      [readBufferSize]byte
	smallReadBuffer [smallRead]byte
)

// Other buffers are left to the collector. A message's is small as a rule:
// if those for writing were mixed with them, every call would end up with one.
const (
	minPooled    = 1 << 10
	maxPooled    = 64 << 10
	maxPooledOut = 4 << 20
	maxKept      = 8 << 10 // by who used it, beside the pool
)

func takeBuffer() *buffer {
	if b, ok := buffers.Get().(*buffer); ok {
		return b
	}
	return &buffer{b: make([]byte, 0, minPooled)}
}

// put appends bytes of a message of which as many are to come, these included.
// The session's other calls wait meanwhile: the memory of a large message is
// never moved, and little is taken at a time.
func (b *buffer) put(p []byte, left int) {
	if b.pieces == nil && cap(b.b)-len(b.b) < len(p) && left <= len(piece{}) {
		b.b = slices.Grow(b.b, left)
	}
	if b.pieces == nil && cap(b.b)-len(b.b) >= len(p) {
		b.b = append(b.b, p...)
		return
	}
	for len(p) > 0 {
		if b.pieces == nil || b.last == len(piece{}) {
			b.pieces, b.last = append(b.pieces, takePiece()), 0
		}
		n := copy(b.pieces[len(b.pieces)-1][b.last:], p)
		p, b.last = p[n:], b.last+n
	}
}

// whole puts the pieces together and returns all bytes. It is for the goroutine
// that needs the message: it takes long.
func (b *buffer) whole() []byte {
	if b.pieces == nil {
		return b.b
	}
	full := len(b.pieces) - 1
	all := make([]byte, 0, len(b.b)+full*len(piece{})+b.last)
	all = append(all, b.b...)
	for _, p := range b.pieces[:full] {
		all = append(all, p[:]...)
	}
	all = append(all, b.pieces[full][:b.last]...)
	b.dropPieces()
	b.b = all
	return all
}

func (b *buffer) dropPieces() {
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

func giveBuffer(b *buffer) {
	if b == nil {
		return
	}
	b.dropPieces()
	if cap(b.b) >= minPooled && cap(b.b) <= maxPooled {
		b.b = b.b[:0]
		buffers.Put(b)
	}
}

// keep empties a buffer for whoever has it to use it again; nil when it has
// grown too large to be kept.
func (b *buffer) keep() *buffer {
	if b == nil || cap(b.b) > maxKept {
		giveBuffer(b)
		return nil
	}
	b.dropPieces()
	b.b = b.b[:0]
	return b
}

func takeOutBuffer() *buffer {
	if b, ok := outBuffers.Get().(*buffer); ok {
		return b
	}
	return &buffer{b: make([]byte, 0, 16<<10), out: true}
}

// giveOutBuffer gives back what was written; that may have been a message's.
func giveOutBuffer(b *buffer) {
	if !b.out {
		giveBuffer(b)
		return
	}
	if cap(b.b) <= maxPooledOut {
		b.b = b.b[:0]
		outBuffers.Put(b)
	}
}

func takeReadBuffer(large bool) []byte {
	if large {
		if b, ok := readBuffers.Get().(*readBuffer); ok {
			return b[:]
		}
		return new(readBuffer)[:]
	}
	if b, ok := smallReads.Get().(*smallReadBuffer); ok {
		return b[:]
	}
	return new(smallReadBuffer)[:]
}

func giveReadBuffer(b []byte) {
	if len(b) == smallRead {
		smallReads.Put((*smallReadBuffer)(b))
		return
	}
	readBuffers.Put((*readBuffer)(b))
}
