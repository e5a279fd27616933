package nbio

import (
	"net"
	"syscall"
)

// socket is a connection with a descriptor.
type socket interface {
	net.Conn
	syscall.Conn
	CloseWrite() error
}

var (
	_ socket = (*net.TCPConn)(nil)
	_ socket = (*net.UnixConn)(nil)
)
