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

// bound is TCP whose port the harness knows and the peer has opened.
type bound struct {
	tandem.Transport
	ln net.Listener
}

// Listen returns the listener that is there.
func (b bound) Listen(context.Context, string) (net.Listener, error) { return b.ln, nil }

// carrier returns the transport that the option names, over tcp if it needs that;
// without an option it is WebSocket.
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

// address is where the transport knows what the harness knows as addr: UDP has the
// same port, a unix socket its name.
func address(o load.Options, addr string) string {
	if !o.Has("unix") {
		return addr
	}
	_, port, _ := net.SplitHostPort(addr) // the harness's addresses have one
	return filepath.Join(os.TempDir(), "tandem-bench-"+port)
}

// overQUIC is both a server's and a client's.
func overQUIC() (tandem.Transport, error) {
	config, verify, err := load.TLS()
	if err != nil {
		return nil, err
	}
	config.RootCAs, config.ServerName = verify.RootCAs, verify.ServerName
	return quic.New(config)
}
