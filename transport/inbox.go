package transport

import (
	"net"
	"time"
)

// Inbox is the receiving half of a connection whose bytes are not read but
// handed over: by an engine, or by a library that reads messages. It holds at
// most 64 KiB; then whoever writes to it waits. Both sides have deadlines, as a
// [net.Conn] must have them, so it may be its sending half too. All methods may be
// called concurrently.
type Inbox struct{ half *half }

// NewInbox returns an empty inbox.
func NewInbox() *Inbox { return &Inbox{newHalf()} }

// Write adds what was received. It waits while the inbox is full, and fails when
// it is closed.
func (b *Inbox) Write(p []byte) (int, error) { return b.half.write(p) }

// End says that no more comes: Read returns err, which io.EOF may be, when it
// has returned everything before.
func (b *Inbox) End(err error) { b.half.close(err, false) }

// Read waits until something is there. Its error is End's, os.ErrDeadlineExceeded,
// or net.ErrClosed.
func (b *Inbox) Read(p []byte) (int, error) { return b.half.read(p) }

// SetReadDeadline sets when Read fails that waits; it never does for the zero
// time. A Read that waits already goes by it too.
func (b *Inbox) SetReadDeadline(t time.Time) error {
	b.half.setDeadline(&b.half.readBy, t)
	return nil
}

// SetWriteDeadline sets when Write fails that waits for room.
func (b *Inbox) SetWriteDeadline(t time.Time) error {
	b.half.setDeadline(&b.half.writeBy, t)
	return nil
}

// Close throws away what was not read: Read and Write fail.
func (b *Inbox) Close() { b.half.close(net.ErrClosed, true) }
