//go:build !linux

package nbio

import "net"

// loop does nothing: connections keep Go's poller.
type loop struct{}

func newLoop() (*loop, error) { return &loop{}, nil }

func (*loop) adopt(s socket) (net.Conn, error) { return s, nil }

func (*loop) stop() {}
