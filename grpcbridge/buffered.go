package grpcbridge

import (
	"bytes"
	"io"
	"sync"
)

// bodyWindow is how many bytes of a response in memory may wait for the client to read them before the
// handler's writes wait.
const bodyWindow = 64 << 10

// buffered is the body of a response in memory: a pipe whose writer is ahead by up to bodyWindow and
// one write, so that a handler can end while its client still sends.
type buffered struct {
	mu      sync.Mutex
	changed sync.Cond
	unread  bytes.Buffer
	end     error // what Read returns when all is read; nil while more may come
	closed  bool  // the reader wants no more
}

func newBuffered() *buffered {
	b := new(buffered)
	b.changed.L = &b.mu
	return b
}

// Read waits for bytes.
func (b *buffered) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		switch {
		case b.closed:
			return 0, io.ErrClosedPipe
		case b.unread.Len() > 0:
			b.changed.Broadcast()
			return b.unread.Read(p)
		case b.end != nil:
			return 0, b.end
		case len(p) == 0:
			return 0, nil
		}
		b.changed.Wait()
	}
}

// Write waits until fewer than bodyWindow bytes are unread.
func (b *buffered) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.unread.Len() >= bodyWindow && !b.closed && b.end == nil {
		b.changed.Wait()
	}
	if b.closed || b.end != nil {
		return 0, io.ErrClosedPipe
	}
	b.changed.Broadcast()
	return b.unread.Write(p)
}

// Close says that no more is read: writes fail.
func (b *buffered) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.unread = bytes.Buffer{}
	b.changed.Broadcast()
	return nil
}

// finish says that no more is written, the first time. Read returns err after the rest.
func (b *buffered) finish(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.end == nil {
		b.end = err
	}
	b.changed.Broadcast()
}
