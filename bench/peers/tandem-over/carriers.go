package main

import (
	"context"
	"net"
	"os"
	"path/filepath"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/bench/load"
	"github.com/tandem-rpc/tandem/transport"
	"github.com/tandem-rpc/tandem/transport/kcp"
	"github.com/tandem-rpc/tandem/transport/nbio"
	"github.com/tandem-rpc/tandem/transport/quic"
	"github.com/tandem-rpc/tandem/transport/websocket"
)

// bound is TCP with a listener that the peer has opened, at a port that the harness knows.
type bound struct {
	tandem.Transport
	ln net.Listener
}

// Listen returns that listener.
func (b bound) Listen(context.Context, string) (net.Listener, error) { return b.ln, nil }

// carrier returns the transport that the option names, over tcp if it needs that; without
// an option, WebSocket.
func carrier(o load.Options, tcp tandem.Transport) (tandem.Transport, error) {
	switch {
	case o.Has("unix"):
		return transport.Unix(), nil
	case o.Has("kcp"):
		return kcp.New()
	case o.Has("quic"):
		return overQUIC()
	case o.Has("nbio"):
		return nbio.New(tcp)
	}
	return websocket.New(tcp), nil
}

// address returns the transport's address for the harness's addr: for UDP the same port,
// for a unix socket its name.
func address(o load.Options, addr string) string {
	if !o.Has("unix") {
		return addr
	}
	_, port, _ := net.SplitHostPort(addr) // the harness's addresses have a port
	return filepath.Join(os.TempDir(), "tandem-bench-"+port)
}

// overQUIC returns a transport for servers and clients.
func overQUIC() (tandem.Transport, error) {
	config, verify, err := load.TLS()
	if err != nil {
		return nil, err
	}
	config.RootCAs, config.ServerName = verify.RootCAs, verify.ServerName
	return quic.New(config)
}
