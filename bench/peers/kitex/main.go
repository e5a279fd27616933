// Kitex is the peer of cloudwego/kitex with its default connection type, the
// pool of long connections. One of those carries one call at a time, so a
// caller has a client with a pool of one. Kitex's documentation (Connection
// Type) asks to set the pool by the load: idle connections by the calls in
// flight, which is one. All else is kitex's default, netpoll included.
//
// Package hello says how the message is encoded. The linker's check of names
// is off (build.flags), for what sonic and dynamicgo, of which kitex is made,
// reach of the runtime. As pinned it also links and runs with the check.
package main

import (
	"net"
	"time"

	"github.com/cloudwego/kitex/client"
	"github.com/cloudwego/kitex/pkg/connpool"

	"github.com/tandem-rpc/tandem/bench/load"
	"github.com/tandem-rpc/tandem/bench/peers/kitex/hello"
)

// idle keeps one connection.
var idle = connpool.IdleConfig{
	MinIdlePerAddress: 1,
	MaxIdlePerAddress: 1,
	MaxIdleGlobal:     1,
	MaxIdleTimeout:    time.Minute,
}

func main() {
	load.Main(load.System{Serve: serve, Dial: load.DialFor(dial), Exclusive: true})
}

func serve(ln net.Listener) error { return hello.Serve(ln) }

func dial(addr string) (*hello.Caller, error) {
	return hello.Dial(addr, client.WithLongConnection(idle))
}
