package main

import (
	"context"
	"errors"
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

// listening returns the transport of the server. Where a client takes another way to
// it, it is TCP; in memory nobody comes.
func listening(o load.Options, ln net.Listener) (tandem.Transport, error) {
	tcp := bound{transport.TCP(), ln}
	if o.Has("memory") || o.Has("proxy") {
		return tcp, nil
	}
	return carrier(o, tcp)
}

// dialing returns the transport of the client.
func dialing(o load.Options) (tandem.Transport, error) {
	switch {
	case o.Has("memory"):
		return inMemory()
	case o.Has("proxy"):
		return throughProxy()
	}
	return carrier(o, transport.TCP())
}

// carrier returns the transport that the option names; without one it is WebSocket.
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

// memoryAddress is where the server in the client's own process listens.
const memoryAddress = "server"

// address is where the transport knows what the harness knows as addr: UDP has the
// same port, a unix socket its name.
func address(o load.Options, addr string) string {
	switch {
	case o.Has("memory"):
		return memoryAddress
	case o.Has("unix"):
		_, port, _ := net.SplitHostPort(addr) // the harness's addresses have one
		return filepath.Join(os.TempDir(), "tandem-bench-"+port)
	}
	return addr
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

// inMemory starts a server in this process, which ends with it.
func inMemory() (tandem.Transport, error) {
	network := transport.NewMemory()
	ln, err := network.Listen(context.Background(), memoryAddress)
	if err != nil {
		return nil, err
	}
	go func() { _ = serveOn(ln) }() // calls fail if it ends
	return network, nil
}

// throughProxy starts a proxy in this process, which ends with it.
func throughProxy() (tandem.Transport, error) {
	var config net.ListenConfig
	ln, err := config.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go func() { _ = proxy(ln) }() // dials fail if it ends
	t, err := transport.Proxy(transport.TCP(), ln.Addr().String())
	if err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return t, nil
}
