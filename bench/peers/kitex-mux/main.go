// Kitex-mux is the peer of cloudwego/kitex with its connection multiplexing, as
// its documentation (Connection Type) sets it up: WithMuxConnection on the
// client, here with one connection, and WithMuxTransport on the server. The
// transport protocol becomes TTHeader with that. All else is kitex's default.
//
// Package hello, which it shares with the peer kitex, says how the message is
// encoded; that peer's comment says why there is a build.flags.
package main

import (
	"net"

	"github.com/cloudwego/kitex/client"
	"github.com/cloudwego/kitex/server"

	"github.com/tandem-rpc/tandem/bench/load"
	"github.com/tandem-rpc/tandem/bench/peers/kitex/hello"
)

func main() {
	load.Main(load.System{Serve: serve, Dial: load.DialFor(dial)})
}

func serve(ln net.Listener) error { return hello.Serve(ln, server.WithMuxTransport()) }

func dial(addr string) (*hello.Caller, error) {
	return hello.Dial(addr, client.WithMuxConnection(1))
}
