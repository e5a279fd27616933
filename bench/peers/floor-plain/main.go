// Floor-plain is the peer of the bare echo on one connection a caller.
package main

import (
	"github.com/tandem-rpc/tandem/bench/floor"
	"github.com/tandem-rpc/tandem/bench/load"
)

func main() {
	load.Main(load.System{Serve: floor.ServePlain, Dial: load.DialFor(floor.DialPlain), Exclusive: true})
}
