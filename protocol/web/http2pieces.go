package web

import "sync"

// http2Pieces is a part of a body that has come and was not read. Large parts are in memory that all
// bodies share.
type http2Pieces struct {
	list   []http2Piece
	length int
}

// http2Piece is memory with bytes that were not read.
type http2Piece struct {
	unread []byte
	memory *[pieceBytes]byte // nil for small pieces, which have memory of their own
	end    int               // of what is used of memory
}

const (
	pieceBytes = 16 << 10 // as large as a frame
	ownPiece   = 1 << 10  // up to which a piece has memory of its own
)

var pieceMemory = sync.Pool{New: func() any { return new([pieceBytes]byte) }} //nolint:gochecknoglobals // shared memory

// append adds bytes at the end.
func (p *http2Pieces) append(b []byte) {
	p.length += len(b)
	if last := len(p.list) - 1; last >= 0 && p.list[last].memory != nil {
		b = b[p.list[last].add(b):]
	}
	switch {
	case len(b) == 0:
	case len(b) <= ownPiece:
		p.list = append(p.list, http2Piece{unread: append([]byte(nil), b...)})
	default:
		fresh := http2Piece{memory: pieceMemory.Get().(*[pieceBytes]byte)} //nolint:forcetypeassert // nothing else is put
		fresh.add(b)
		p.list = append(p.list, fresh)
	}
}

// add adds as many bytes as there is memory for, and returns how many those are.
func (p *http2Piece) add(b []byte) int {
	n := copy(p.memory[p.end:], b)
	p.unread = p.memory[p.end-len(p.unread) : p.end+n]
	p.end += n
	return n
}

// read moves bytes from the beginning to b.
func (p *http2Pieces) read(b []byte) (n int) {
	done := 0
	for n < len(b) && done < len(p.list) {
		first := &p.list[done]
		k := copy(b[n:], first.unread)
		n += k
		if first.unread = first.unread[k:]; len(first.unread) == 0 {
			first.free()
			done++
		}
	}
	p.length -= n
	if done > 0 {
		left := copy(p.list, p.list[done:])
		clear(p.list[left:])
		p.list = p.list[:left]
	}
	return n
}

// peek copies bytes from the beginning to b, and leaves them there.
func (p *http2Pieces) peek(b []byte) {
	for i := 0; len(b) > 0 && i < len(p.list); i++ {
		b = b[copy(b, p.list[i].unread):]
	}
}

// drop removes everything, and returns how many bytes that was.
func (p *http2Pieces) drop() int {
	n := p.length
	for i := range p.list {
		p.list[i].free()
	}
	*p = http2Pieces{}
	return n
}

func (p *http2Piece) free() {
	if p.memory != nil {
		pieceMemory.Put(p.memory)
	}
	*p = http2Piece{}
}
