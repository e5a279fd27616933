//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package file

import (
	"errors"
	"os"
	"syscall"
)

// These systems have flock(2): one lock per file, whose state can't be queried
// without taking it. Seized and owned are therefore the same state, and a watcher
// may see the data of a dead owner between seizing and removing it.

// seize locks f for the changes before it is owned or removed. It reports false
// when the lock is seized or owned, or when held is querying it.
func seize(f *os.File) (bool, error) { return tryLock(f, syscall.LOCK_EX) }

// own turns a seized lock into an owned one.
func own(*os.File) (bool, error) { return true, nil }

// held reports whether the lock file at path is owned. For an instant it takes a
// shared lock, which makes a concurrent seize fail: that must be retried.
func held(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close() // unlocks
	free, err := tryLock(f, syscall.LOCK_SH)
	return err == nil && !free, err
}

func tryLock(f *os.File, how int) (bool, error) {
	err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
