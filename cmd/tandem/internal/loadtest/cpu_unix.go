//go:build unix

package loadtest

import (
	"syscall"
	"time"
)

// cpuTime returns this process's processor time, in user and system mode, 0 if it is not known.
func cpuTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
