package file

import (
	"context"
	"log/slog"
	"time"
)

// gather is how long an event is waited upon for others that come with it.
const gather = 10 * time.Millisecond

// events says when to look at a directory: when the file system tells of a
// change, and at every tick. It is used by one goroutine.
type events struct {
	tick    *time.Ticker
	changes <-chan struct{} // nil when the system has none left, or never has
	watch   *watch
}

// listen starts the ticker and, if there can be one, the watch.
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

// follow makes the watch follow whatever directory is at the path now. It is
// called at every look: following a directory again costs one system call and
// changes nothing, while one that was replaced can't be told from the old by
// any of its attributes. What fails is tried again next time.
func (e *events) follow(dir string) {
	if e.watch != nil {
		e.watch.follow(dir)
	}
}

// wait returns when it is time to look again, or when ctx ends.
func (e *events) wait(ctx context.Context) {
	select {
	case <-e.changes:
	case <-e.tick.C:
		return
	case <-ctx.Done():
		return
	}
	select { // what comes with it is seen at the same look
	case <-time.After(gather):
	case <-ctx.Done():
	}
}
