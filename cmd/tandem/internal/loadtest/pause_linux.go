package loadtest

import (
	"runtime"
	"syscall"
	"time"
)

// setTimerSlack is PR_SET_TIMERSLACK of prctl(2).
const setTimerSlack = 29

// precisePause returns a function that sleeps for a short time. The timers of the Go runtime are
// up to a millisecond late on Linux, as they wait in epoll_wait with whole milliseconds; nanosleep
// is exact if the thread has no timer slack, which is 50 µs by default.
func precisePause() func(time.Duration) {
	if runtime.GOMAXPROCS(0) == 1 {
		return time.Sleep // nothing else would run during the system call
	}
	return func(d time.Duration) {
		_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, setTimerSlack, 1, 0) // without it, it is only less exact
		t := syscall.NsecToTimespec(int64(d))
		_ = syscall.Nanosleep(&t, nil) // the caller looks at the clock
	}
}
