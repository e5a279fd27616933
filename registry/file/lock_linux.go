package file

import (
	"errors"
	"os"
	"syscall"
)

// The commands of fcntl(2) for locks of an open file description, the same on
// every architecture; the standard library does not name them.
const (
	ofdGetLock = 36 // F_OFD_GETLK
	ofdSetLock = 37 // F_OFD_SETLK
)

// Linux has locks on ranges of bytes that belong to the open file description and
// can be queried without taking them: see fcntl(2). Two bytes represent the three
// states; an owner has locked both.
const (
	seizeByte = iota
	aliveByte
)

// seize locks f for the changes before it is owned or removed. It reports false
// when the lock is seized or owned.
func seize(f *os.File) (bool, error) { return lockByte(f, seizeByte) }

// own turns a seized lock into an owned one. When it reports false, the caller has
// to start again with seize.
func own(f *os.File) (bool, error) { return lockByte(f, aliveByte) }

// held reports whether the lock file at path is owned.
func held(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close() //nolint:errcheck // it was only looked at
	l := syscall.Flock_t{Type: syscall.F_WRLCK, Start: aliveByte, Len: 1}
	err = syscall.FcntlFlock(f.Fd(), ofdGetLock, &l)
	return err == nil && l.Type != syscall.F_UNLCK, err
}

// lockByte locks one byte exclusively and reports false when it is locked already.
func lockByte(f *os.File, at int64) (bool, error) {
	l := syscall.Flock_t{Type: syscall.F_WRLCK, Start: at, Len: 1}
	err := syscall.FcntlFlock(f.Fd(), ofdSetLock, &l)
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) {
		return false, nil
	}
	return err == nil, err
}
