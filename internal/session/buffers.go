package session

import "sync"

// What is used again is the process's, not an Env's: what was just used is in
// the processor's cache, and a thousand clients need no more than run at once.
var (
	buffers     sync.Pool // *buffer, for a message each
	outBuffers  sync.Pool // *buffer, for what is to be written: few, but large
	readBuffers sync.Pool // *readBuffer
	inbounds    sync.Pool // *Inbound
)

// buffer is a slice that can be pooled without allocating.
type buffer struct{ b []byte }

type readBuffer [readBufferSize]byte

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
	return &buffer{make([]byte, 0, minPooled)}
}

func giveBuffer(b *buffer) {
	if b != nil && cap(b.b) >= minPooled && cap(b.b) <= maxPooled {
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
	b.b = b.b[:0]
	return b
}

func takeOutBuffer() *buffer {
	if b, ok := outBuffers.Get().(*buffer); ok {
		return b
	}
	return &buffer{make([]byte, 0, 16<<10)}
}

func giveOutBuffer(b *buffer) {
	if cap(b.b) <= maxPooledOut {
		b.b = b.b[:0]
		outBuffers.Put(b)
	}
}

func takeReadBuffer() *readBuffer {
	if b, ok := readBuffers.Get().(*readBuffer); ok {
		return b
	}
	return new(readBuffer)
}

func giveReadBuffer(b *readBuffer) { readBuffers.Put(b) }
