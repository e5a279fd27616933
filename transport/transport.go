// Package transport (stable) makes connections: TCP, unix sockets, TLS over either, connections
// through HTTP proxies, and an in-memory network. Each is a [tandem.Transport], a value that is passed as an
// option. Nothing else in the module dials or listens.
package transport

import (
	"context"
	"net"
	"os"

	"github.com/tandem-rpc/tandem"
)

type stream struct {
	network string
	dialer  net.Dialer
	listen  net.ListenConfig
}

// TCP returns the transport over TCP, with Go's defaults: TCP_NODELAY, and keep-alive every 15
// seconds.
func TCP() tandem.Transport { return &stream{network: "tcp"} }

// Unix returns the transport over unix domain stream sockets; an address is a path. Listen
// removes a socket file that no process listens on any more.
func Unix() tandem.Transport { return &stream{network: "unix"} }

// Stream returns the transport over a network of package net: "tcp", "tcp4", "tcp6" or "unix".
// For another network Dial and Listen return an error.
func Stream(network string) tandem.Transport { return &stream{network: network} }

func (t *stream) Dial(ctx context.Context, address string) (net.Conn, error) {
	return t.dialer.DialContext(ctx, t.network, address)
}

func (t *stream) Listen(ctx context.Context, address string) (net.Listener, error) {
	ln, err := t.listen.Listen(ctx, t.network, address)
	if err == nil || t.network != "unix" || !t.stale(ctx, address) {
		return ln, err
	}
	if err := os.Remove(address); err != nil {
		return nil, err
	}
	return t.listen.Listen(ctx, t.network, address)
}

// stale reports whether address is a socket file that refuses connections: its listener's
// process has ended without removing it.
func (t *stream) stale(ctx context.Context, address string) bool {
	info, err := os.Lstat(address)
	if err != nil || info.Mode()&os.ModeSocket == 0 {
		return false
	}
	c, err := t.dialer.DialContext(ctx, t.network, address)
	if err == nil {
		_ = c.Close()
		return false
	}
	return isRefused(err)
}
