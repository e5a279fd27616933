package connections

import (
	"bytes"
	"os"
	"strconv"
)

// Kernel is what the kernel of the whole machine holds: both ends of every
// connection, and whatever else runs. Sizes are in bytes; 0 where /proc is missing.
type Kernel struct {
	Slab    uint64 `json:"slab_b"`        // its objects, sockets among them
	Buffers uint64 `json:"tcp_buffers_b"` // of TCP
}

func readKernel() Kernel {
	return Kernel{
		Slab:    number("/proc/meminfo", "Slab:") << 10,
		Buffers: tcpPages() * uint64(os.Getpagesize()), //nolint:gosec // positive
	}
}

// tcpPages is the last number of the line of TCP in sockstat.
func tcpPages() uint64 {
	text, _ := os.ReadFile("/proc/net/sockstat")
	_, line, _ := bytes.Cut(text, []byte("TCP: "))
	line, _, _ = bytes.Cut(line, []byte("\n"))
	_, pages, _ := bytes.Cut(line, []byte(" mem "))
	n, _ := strconv.ParseUint(string(pages), 10, 64)
	return n
}

// number is the one behind a label in a file, 0 if there is none.
func number(file, label string) uint64 {
	text, _ := os.ReadFile(file)
	_, rest, _ := bytes.Cut(text, []byte(label))
	fields := bytes.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	n, _ := strconv.ParseUint(string(fields[0]), 10, 64)
	return n
}
