package file

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// The directory at a path may be replaced by another; events then come from
// that one.
func TestEventsFollowThePath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dir")
	e := listen(time.Hour, slog.New(slog.DiscardHandler))
	defer e.close()
	if e.fs == nil {
		t.Skip("this system has no file system events to give")
	}
	e.follow(dir) // is not there yet
	for range 20 {
		if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o755)); err != nil {
			t.Fatal(err)
		}
		e.follow(dir)
		put(t, dir, "news", "")
		awaitEvent(t, e, filepath.Join(dir, "news"))
	}
}

func awaitEvent(t *testing.T, e *events, name string) {
	t.Helper()
	timeout := time.After(10 * time.Second)
	for {
		select {
		case ev := <-e.fs.Events:
			if ev.Name == name {
				return
			}
		case err := <-e.fs.Errors:
			t.Log(err)
		case <-timeout:
			t.Fatalf("no event about %s", name)
		}
	}
}
