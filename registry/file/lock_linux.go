package file

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Linux has locks that belong to the open file description, on ranges of
// bytes, and can be asked about without being taken: see fcntl(2). Two bytes
// make the three states; an owner has both locked.
const (
	seizeByte = iota
	aliveByte
)

// seize locks f for the changes that come before owning or removing. It
// reports false when somebody has it seized or owned.
func seize(f *os.File) (bool, error) { return lockByte(f, seizeByte) }

// own turns a seized lock into an owned one. When it reports false, it has to
// be tried again from the start.
func own(f *os.File) (bool, error) { return lockByte(f, aliveByte) }

// held reports whether the lock file at path is owned.
func held(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close() //nolint:errcheck // it was only looked at
	l := unix.Flock_t{Type: unix.F_WRLCK, Start: aliveByte, Len: 1}
	err = unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &l)
	return err == nil && l.Type != unix.F_UNLCK, err
}

// lockByte locks one byte exclusively and reports false when another has it.
func lockByte(f *os.File, at int64) (bool, error) {
	l := unix.Flock_t{Type: unix.F_WRLCK, Start: at, Len: 1}
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &l)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return false, nil
	}
	return err == nil, err
}
