// Floor-mux is the peer of the bare echo on shared connections.
package main

import (
	"github.com/tandem-rpc/tandem/bench/floor"
	"github.com/tandem-rpc/tandem/bench/load"
)

func main() {
	load.Main(load.System{
		Serve: floor.ServeMux,
		Dial:  load.DialFor(floor.DialMux),
	})
}
