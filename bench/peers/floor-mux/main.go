// Floor-mux is the peer of the bare echo on shared connections.
package main

import (
	"runtime"

	"github.com/tandem-rpc/tandem/bench/floor"
	"github.com/tandem-rpc/tandem/bench/load"
)

func main() {
	// Client and server share the machine, half of it each. With more processors than that, a
	// client's callers move between processors, which costs an eighth of a call and gains
	// nothing: the connections' readers and writers take turns anyway.
	runtime.GOMAXPROCS(max(1, runtime.NumCPU()/2))
	load.Main(load.System{
		Serve: floor.ServeMux,
		Dial:  load.DialFor(floor.DialMux),
	})
}
