package file

import (
	"context"
	"log/slog"
	"time"
)

// gather is how long wait waits after an event for further events.
const gather = 10 * time.Millisecond

// events tells when to read a directory: after a file system event, and at every
// tick. It is used by one goroutine.
type events struct {
	tick    *time.Ticker
	changes <-chan struct{} // nil when the system provides no events
	watch   *watch
}

// listen starts the ticker and, if the system provides events, the watch.
func listen(poll time.Duration, log *slog.Logger) *events {
	e := &events{tick: time.NewTicker(poll)}
	w, err := newWatch()
	if err != nil {
		log.Warn("file registry: no file system events; changes are seen by polling", "error", err, "poll", poll)
		return e
	}
	if w != nil {
		e.watch, e.changes = w, w.changes
	}
	return e
}

func (e *events) close() {
	e.tick.Stop()
	if e.watch != nil {
		e.watch.close()
	}
}

// follow makes the watch follow the directory that is at the path now. It is called
// before every read: no attribute of a directory tells that it was replaced, and
// following the same directory again costs one system call and changes nothing. An
// error is ignored; the next call tries again.
func (e *events) follow(dir string) {
	if e.watch != nil {
		e.watch.follow(dir)
	}
}

// wait returns when the directory should be read again, or when ctx ends.
func (e *events) wait(ctx context.Context) {
	select {
	case <-e.changes:
	case <-e.tick.C:
		return
	case <-ctx.Done():
		return
	}
	select { // so that further changes are seen by the same read
	case <-time.After(gather):
	case <-ctx.Done():
	}
}
