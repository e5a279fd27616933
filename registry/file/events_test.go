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

// When the directory at a path is replaced by another, events come from the new one.
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

// listening returns events whose ticker does not fire during a test. It skips the
// test on a system without file system events, and fails it on Linux.
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

// settle waits until there has been no event for 50 ms.
func settle(e *events) {
	for {
		select {
		case <-e.changes:
		case <-time.After(50 * time.Millisecond):
			return
		}
	}
}
