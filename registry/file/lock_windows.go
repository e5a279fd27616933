package file

import (
	"errors"
	"os"
	"syscall"
	"unsafe"
)

// LockFileEx, its flags, and the error for a byte that is locked already, which the
// standard library does not have.
var lockFileEx = syscall.NewLazyDLL("kernel32.dll").NewProc("LockFileEx")

const (
	lockAtOnce    uint32 = 1 // LOCKFILE_FAIL_IMMEDIATELY
	lockExclusive uint32 = 2 // LOCKFILE_EXCLUSIVE_LOCK

	errLockViolation syscall.Errno = 33 // ERROR_LOCK_VIOLATION
)

// Windows has locks on ranges of bytes that belong to the open file, whose state
// can't be queried without taking them. Two bytes, beyond the end of the empty
// file, represent the three states; an owner has locked both.
const (
	seizeByte = iota
	aliveByte
)

// seize locks f for the changes before it is owned or removed. It reports false
// when the lock is seized or owned.
func seize(f *os.File) (bool, error) {
	return lockByte(f, seizeByte, lockExclusive)
}

// own turns a seized lock into an owned one. When it reports false, held was
// querying the lock, and the caller has to start again with seize.
func own(f *os.File) (bool, error) {
	return lockByte(f, aliveByte, lockExclusive)
}

// held reports whether the lock file at path is owned. For an instant it takes a
// shared lock, which makes a concurrent own fail: that must be retried.
func held(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	free, err := lockByte(f, aliveByte, 0) // shared; closing unlocks
	return err == nil && !free, err
}

// lockByte locks one byte and reports false when another lock on it prevents that.
func lockByte(f *os.File, at, flags uint32) (bool, error) {
	overlapped := &syscall.Overlapped{Offset: at}
	ok, _, err := lockFileEx.Call(f.Fd(), uintptr(flags|lockAtOnce), 0, 1, 0, uintptr(unsafe.Pointer(overlapped))) //nolint:gosec // the system's interface
	if ok != 0 {
		return true, nil
	}
	if errors.Is(err, errLockViolation) || errors.Is(err, syscall.ERROR_IO_PENDING) {
		return false, nil
	}
	return false, os.NewSyscallError("LockFileEx", err)
}
