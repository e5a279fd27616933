package overload

import "time"

// Backlog is what is known of the bytes that have come to this host on a connection and that
// nobody has read. While its reader is at handlers, or waits for room to start them, requests
// grow old there. Its methods are for one goroutine at a time.
type Backlog struct {
	since  int64 // when nothing was left to read, last
	looked int64 // when the bytes were counted, last
	read   int   // bytes since then
	unread int   // bytes then
	age    int64 // ns that what is read now has waited
}

// lookEvery is how often who reads without waiting counts the bytes.
const lookEvery = int64(10 * time.Millisecond)

// Waited notes that there was nothing to read.
func (b *Backlog) Waited(now int64) { *b = Backlog{since: now, looked: now} }

// Read notes that so many bytes were read. It reports whether it is time for [Backlog.Count].
func (b *Backlog) Read(n int, now int64) bool {
	b.read += n
	return now-b.looked >= lookEvery
}

// Count is told how many bytes are unread, and how long ago the last one came. What is read
// now is as old as it takes for the unread bytes to come, at the rate at which bytes have come
// since the last time (Little's law), and no younger than the last one.
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

// Age returns for how many ns the bytes have waited that are read now, as far as is known.
func (b *Backlog) Age() int64 { return b.age }
