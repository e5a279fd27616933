package accesslog

import (
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// Sizes of the buffers, of which there are two: one is filled while the other is
// written.
const (
	room   = 64 << 10 // bytes; capacity of a buffer
	enough = 32 << 10 // bytes from which on lines are written at once
)

// writer gathers lines and writes them in a goroutine of its own.
type writer struct {
	to   io.Writer
	lost atomic.Uint64

	mu     sync.Mutex
	full   []byte
	lines  uint64 // number of lines in full
	asked  bool   // a write was requested
	closed bool
	err    error // error of the last write that failed

	wake chan struct{}
	done chan struct{}
}

func (w *writer) start(flush time.Duration) {
	w.wake, w.done = make(chan struct{}, 1), make(chan struct{})
	w.full = make([]byte, 0, room)
	go w.run(flush)
}

// add adds a line, or drops it if there is no room.
func (w *writer) add(line []byte) {
	w.mu.Lock()
	if w.closed || len(w.full)+len(line) > room {
		w.mu.Unlock()
		w.lost.Add(1)
		return
	}
	w.full = append(w.full, line...)
	w.lines++
	ask := len(w.full) >= enough && !w.asked
	w.asked = w.asked || ask
	w.mu.Unlock()
	if ask {
		w.signal()
	}
}

func (w *writer) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// run writes the gathered lines at each flush, or when there are enough of them, until close.
func (w *writer) run(flush time.Duration) {
	defer close(w.done)
	ticker := time.NewTicker(flush)
	defer ticker.Stop()
	spare := make([]byte, 0, room)
	for over := false; !over; {
		select {
		case <-w.wake:
		case <-ticker.C:
		}
		spare, over = w.write(spare)
	}
}

// write writes the gathered lines, and returns their memory for the next ones.
func (w *writer) write(spare []byte) (free []byte, over bool) {
	w.mu.Lock()
	text, lines := w.full, w.lines
	w.full, w.lines, w.asked, over = spare[:0], 0, false, w.closed
	w.mu.Unlock()
	if len(text) == 0 {
		return text, over
	}
	if _, err := w.to.Write(text); err != nil {
		w.lost.Add(lines)
		w.mu.Lock()
		w.err = err
		w.mu.Unlock()
	}
	return text, over
}

// close writes the rest and returns the last error.
func (w *writer) close() error {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.signal()
	<-w.done
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}
