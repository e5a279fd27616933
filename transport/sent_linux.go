//go:build linux && !386 && !s390x

package transport

import (
	"syscall"
	"time"
	"unsafe"
)

// tcpNotSentLowAt is TCP_NOTSENT_LOWAT, which package syscall lacks.
const tcpNotSentLowAt = 25

// boundUnsent bounds what the kernel holds of a TCP connection that was not sent yet.
func boundUnsent(fd uintptr) {
	_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpNotSentLowAt, mostUnsent) // a socket of another kind has no such bound
}

// sent asks the kernel what the other host has acknowledged of a TCP connection.
func sent(fd uintptr) (s Sent, ok bool) {
	var info syscall.TCPInfo
	size := uint32(syscall.SizeofTCPInfo)
	if _, _, e := syscall.Syscall6(syscall.SYS_GETSOCKOPT, fd, syscall.IPPROTO_TCP, syscall.TCP_INFO,
		uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0); e != 0 { //nolint:gosec // package syscall has no function for it
		return s, false
	}
	var left int32
	if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TIOCOUTQ, uintptr(unsafe.Pointer(&left))); e != 0 { //nolint:gosec // as above
		return s, false
	}
	return Sent{Unacked: int(left), Age: time.Duration(info.Last_ack_recv) * time.Millisecond}, true
}
