package transport

import (
	"net"
	"time"
)

// Inbox is the receiving half of a connection whose bytes are not read but delivered: by an
// engine, or by a library that reads messages. It holds at most 64 KiB; then Write waits. Both
// sides have deadlines, as a [net.Conn] must have them, so it may also serve as the sending
// half. All methods may be called concurrently.
type Inbox struct{ half *half }

// NewInbox returns an empty inbox.
func NewInbox() *Inbox { return &Inbox{newHalf()} }

// Write adds received bytes. It waits while the inbox is full, and fails when the inbox is
// closed.
func (b *Inbox) Write(p []byte) (int, error) { return b.half.write(p) }

// End ends the input: Read returns err, which may be io.EOF, after all bytes that were written
// before.
func (b *Inbox) End(err error) { b.half.close(err, false) }

// Read waits until there are bytes. Its error is End's, os.ErrDeadlineExceeded, or
// net.ErrClosed.
func (b *Inbox) Read(p []byte) (int, error) { return b.half.read(p) }

// SetReadDeadline sets when a Read that waits fails; never for the zero time. It also applies
// to a Read that waits already.
func (b *Inbox) SetReadDeadline(t time.Time) error {
	b.half.setDeadline(&b.half.readBy, t)
	return nil
}

// SetWriteDeadline sets when a Write that waits for room fails.
func (b *Inbox) SetWriteDeadline(t time.Time) error {
	b.half.setDeadline(&b.half.writeBy, t)
	return nil
}

// Close discards unread bytes and makes Read and Write fail.
func (b *Inbox) Close() { b.half.close(net.ErrClosed, true) }
