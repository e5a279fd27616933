package load

import (
	"os"
	"runtime"
	"runtime/debug"
	"strings"
)

// Memory is what a process holds after a garbage collection that gave all it
// could back to the operating system. Sizes are in bytes.
type Memory struct {
	Resident   uint64 `json:"resident_b"`    // VmRSS; 0 where /proc is missing
	HeapInUse  uint64 `json:"heap_in_use_b"` // spans with objects in them
	Heap       uint64 `json:"heap_b"`        // the objects
	Stacks     uint64 `json:"stacks_b"`      // spans with stacks in them
	Runtime    uint64 `json:"runtime_b"`     // what the Go runtime took for itself
	Goroutines int    `json:"goroutines"`
	Sockets    int    `json:"sockets"` // open, the listening ones included; 0 where /proc is missing
}

// readMemory collects garbage twice, since what a pool holds survives once.
func readMemory() Memory {
	runtime.GC()
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return Memory{
		Resident:   ProcField("/proc/self/status", "VmRSS:") << 10,
		HeapInUse:  m.HeapInuse,
		Heap:       m.HeapAlloc,
		Stacks:     m.StackInuse,
		Runtime:    m.MSpanSys + m.MCacheSys + m.BuckHashSys + m.GCSys + m.OtherSys,
		Goroutines: runtime.NumGoroutine(),
		Sockets:    sockets(),
	}
}

// sockets counts the open sockets of this process.
func sockets() int {
	const fds = "/proc/self/fd/"
	entries, err := os.ReadDir(fds)
	if err != nil {
		return 0
	}
	n := 0
	for _, e := range entries {
		if to, err := os.Readlink(fds + e.Name()); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}
