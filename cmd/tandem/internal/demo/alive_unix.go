//go:build unix

package demo

import (
	"errors"
	"syscall"
)

// exists reports whether there is a process with that ID.
func exists(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }
