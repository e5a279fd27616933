// Floor-plain is the peer of the bare echo on one connection a caller. With the
// option stream=n it is the bare stream: pieces of n bytes from the server.
package main

import (
	"net"

	"github.com/tandem-rpc/tandem/bench/floor"
	"github.com/tandem-rpc/tandem/bench/load"
)

func main() {
	sys := load.System{
		Serve:     floor.ServePlain,
		Dial:      load.DialFor(floor.DialPlain),
		Exclusive: true,
		Options:   []string{"stream"},
	}
	if size := load.Named().Bytes("stream"); size > 0 {
		sys.Serve = func(ln net.Listener) error { return floor.ServeStream(ln, load.Payload(size)) }
		sys.Dial = func(addr string) (load.Caller, error) {
			s, err := floor.DialStream(addr, size)
			if err != nil {
				return nil, err
			}
			return load.CallBytes(s, size), nil
		}
	}
	load.Main(sys)
}
