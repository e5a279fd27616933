//go:build linux && !386 && !s390x

package transport

import (
	"syscall"
	"time"
	"unsafe"
)

// tcpNotSentLowAt is TCP_NOTSENT_LOWAT, which package syscall lacks.
const tcpNotSentLowAt = 25

// boundUnsent bounds how many unsent bytes the kernel holds of a TCP connection.
func boundUnsent(fd uintptr) {
	_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpNotSentLowAt, mostUnsent) // a socket of another kind has no such bound
}

// sent asks the kernel what the other host has acknowledged of a TCP connection.
func sent(fd uintptr) (s Sent, ok bool) {
	info, left, ok := about(fd, syscall.TIOCOUTQ)
	return Sent{Unacked: left, Age: time.Duration(info.Last_ack_recv) * time.Millisecond}, ok
}

// received asks the kernel for the unread bytes of a TCP connection.
func received(fd uintptr) (r Received, ok bool) {
	info, left, ok := about(fd, syscall.TIOCINQ)
	return Received{Unread: left, Age: time.Duration(info.Last_data_recv) * time.Millisecond}, ok
}

// about returns the kernel's state of a TCP connection, and the length of one of its queues.
func about(fd uintptr, queue uintptr) (info syscall.TCPInfo, left int, ok bool) {
	size := uint32(syscall.SizeofTCPInfo)
	if _, _, e := syscall.Syscall6(syscall.SYS_GETSOCKOPT, fd, syscall.IPPROTO_TCP, syscall.TCP_INFO,
		uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0); e != 0 { //nolint:gosec // package syscall has no function for it
		return info, 0, false
	}
	var n int32
	_, _, e := syscall.Syscall(syscall.SYS_IOCTL, fd, queue, uintptr(unsafe.Pointer(&n))) //nolint:gosec // package syscall has no function for it
	return info, int(n), e == 0
}
