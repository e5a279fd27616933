package file

import (
	"context"
	"log/slog"
	"time"

	"github.com/fsnotify/fsnotify"
)

// gather is how long an event is waited upon for others that come with it.
const gather = 10 * time.Millisecond

// events says when to look at a directory: when the file system tells of a
// change, and at every tick. It is used by one goroutine.
type events struct {
	tick *time.Ticker
	fs   *fsnotify.Watcher // nil when the system has none left
}

// listen starts the ticker and, if there can be one, the watcher.
func listen(poll time.Duration, log *slog.Logger) *events {
	fs, err := fsnotify.NewWatcher()
	if err != nil {
		log.Warn("file registry: no file system events; changes are seen by polling", "error", err, "poll", poll)
		fs = nil
	}
	return &events{tick: time.NewTicker(poll), fs: fs}
}

func (e *events) close() {
	e.tick.Stop()
	if e.fs != nil {
		_ = e.fs.Close()
	}
}

// follow makes the watcher follow whatever directory is at the path now. It is
// called at every look: adding a directory that is followed already costs one
// system call and changes nothing, while one that was replaced can't be told
// from the old by any of its attributes. What fails is tried again next time.
func (e *events) follow(dir string) {
	if e.fs != nil {
		_ = e.fs.Add(dir)
	}
}

// wait returns when it is time to look again, or when ctx ends.
func (e *events) wait(ctx context.Context) {
	var changes <-chan fsnotify.Event
	var failures <-chan error
	if e.fs != nil {
		changes, failures = e.fs.Events, e.fs.Errors
	}
	var gathered <-chan time.Time
	for {
		select {
		case <-changes:
		case <-failures: //nolint:errcheck // such as events that were lost: look
		case <-e.tick.C:
			return
		case <-gathered:
			return
		case <-ctx.Done():
			return
		}
		if gathered == nil {
			gathered = time.After(gather)
		}
	}
}
