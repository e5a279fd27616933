package file

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// Windows has locks that belong to the open file, on ranges of bytes, which
// can't be asked about without being taken. Two bytes, beyond the end of the
// empty file, make the three states; an owner has both locked.
const (
	seizeByte = iota
	aliveByte
)

// seize locks f for the changes that come before owning or removing. It
// reports false when somebody has it seized or owned.
func seize(f *os.File) (bool, error) {
	return lockByte(f, seizeByte, windows.LOCKFILE_EXCLUSIVE_LOCK)
}

// own turns a seized lock into an owned one. When it reports false, somebody
// was just asking, and it has to be tried again from the start.
func own(f *os.File) (bool, error) {
	return lockByte(f, aliveByte, windows.LOCKFILE_EXCLUSIVE_LOCK)
}

// held reports whether the lock file at path is owned. For an instant it
// takes a shared lock, which own must have patience with.
func held(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	free, err := lockByte(f, aliveByte, 0) // shared; closing unlocks
	return err == nil && !free, err
}

// lockByte locks one byte and reports false when another's lock forbids it.
func lockByte(f *os.File, at, flags uint32) (bool, error) {
	flags |= windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &windows.Overlapped{Offset: at})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return false, nil
	}
	return err == nil, err
}
