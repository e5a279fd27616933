package connections

import (
	"os"

	"github.com/tandem-rpc/tandem/bench/load"
)

// Kernel is what the kernel of the whole machine holds: both ends of every
// connection, and whatever else runs. Sizes are in bytes; 0 where /proc is missing.
type Kernel struct {
	Slab    uint64 `json:"slab_b"`        // its objects, sockets among them
	Buffers uint64 `json:"tcp_buffers_b"` // of TCP
}

func readKernel() Kernel {
	// TCP's line is the first in sockstat that has pages of memory.
	pages := load.ProcField("/proc/net/sockstat", " mem ")
	return Kernel{
		Slab:    load.ProcField("/proc/meminfo", "Slab:") << 10,
		Buffers: pages * uint64(os.Getpagesize()), //nolint:gosec // positive
	}
}
