package overload

import "time"

// Backlog estimates how long requests have waited in the kernel's receive buffer of a connection.
// They wait there while the reader runs handlers, or may not start more of them. Its methods are
// for one goroutine at a time.
type Backlog struct {
	since  int64 // ns; when the buffer was last empty
	looked int64 // ns; when Count was last called
	read   int   // bytes read since looked
	unread int   // bytes in the buffer at looked
	age    int64 // ns that the bytes read now have waited
}

// Waited records that the buffer was empty, so the reader had to wait.
func (b *Backlog) Waited(now int64) { *b = Backlog{since: now, looked: now} }

// Read records that n bytes were read. It reports whether [Backlog.Count] must be called, as
// every has passed since its last call: the reader may never find the buffer empty.
func (b *Backlog) Read(n int, now int64, every time.Duration) bool {
	b.read += n
	return now-b.looked >= int64(every)
}

// Count takes the number of bytes in the buffer and the time since the last of them arrived. The
// bytes that are read now arrived before those, so their age is the time in which so many bytes
// arrive, at the rate since the last Count (Little's law), and at least last.
func (b *Backlog) Count(unread int, last time.Duration, now int64) {
	passed, came := now-b.looked, b.read+unread-b.unread
	switch {
	case unread == 0:
		b.age, b.since = int64(last), now
	case came > 0:
		b.age = int64(float64(passed) * float64(unread) / float64(came))
		b.age = max(min(b.age, now-b.since), int64(last))
	default:
		b.age = max(min(b.age+passed, now-b.since), int64(last))
	}
	b.looked, b.read, b.unread = now, 0, unread
}

// Age returns the estimate in ns; 0 if nothing is known.
func (b *Backlog) Age() int64 { return b.age }
