package file

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// The directory at a path may be replaced by another; events then come from
// that one.
func TestEventsFollowThePath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dir")
	e := listening(t)
	e.follow(dir) // is not there yet
	for range 5 {
		if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o755)); err != nil {
			t.Fatal(err)
		}
		e.follow(dir)
		settle(e)
		put(t, dir, "news", "")
		awaitEvent(t, e)
	}
}

// A directory that was moved away is not watched any longer.
func TestEventsLeaveAMovedDirectory(t *testing.T) {
	base := t.TempDir()
	dir, moved := filepath.Join(base, "dir"), filepath.Join(base, "moved")
	e := listening(t)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	e.follow(dir)
	if err := errors.Join(os.Rename(dir, moved), os.Mkdir(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	e.follow(dir)
	settle(e)
	put(t, moved, "old", "")
	select {
	case <-e.changes:
		t.Error("an event of the directory that was moved away")
	case <-time.After(50 * time.Millisecond):
	}
	put(t, dir, "news", "")
	awaitEvent(t, e)
}

// listening returns events that do not come from the ticker. Linux must have
// them.
func listening(t *testing.T) *events {
	t.Helper()
	e := listen(time.Hour, slog.New(slog.DiscardHandler))
	t.Cleanup(e.close)
	if e.watch == nil {
		if runtime.GOOS == "linux" {
			t.Fatal("no file system events")
		}
		t.Skip("this system has no file system events to give")
	}
	return e
}

func awaitEvent(t *testing.T, e *events) {
	t.Helper()
	select {
	case <-e.changes:
	case <-time.After(10 * time.Second):
		t.Fatal("no event")
	}
}

// settle waits until what has happened so far has been told.
func settle(e *events) {
	for {
		select {
		case <-e.changes:
		case <-time.After(50 * time.Millisecond):
			return
		}
	}
}
