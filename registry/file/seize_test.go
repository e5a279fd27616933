//go:build linux || windows

package file

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
)

// The files of a dead owner are removed before a new owner has the lock, so they are
// never listed as the new owner's.
func TestSeizedIsNotListed(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "a")
	stale, _ := encode(instance("a"))
	put(t, dir, "a.json", string(stale))
	c, err := take(name)
	if err != nil {
		t.Fatal(err)
	}
	defer c.remove()
	if list, err := newLooker(dir, slog.New(slog.DiscardHandler)).look(); len(list) != 0 || err != nil {
		t.Errorf("seized: %v, %v", list, err)
	}
	if _, err := take(name); !errors.Is(err, errTaken) {
		t.Errorf("taken twice: %v", err)
	}
	if err := c.own(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(name + jsonExt); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the stale file: %v", err)
	}
}
