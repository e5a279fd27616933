package load

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"time"
)

// Usage is what a process has used since it began.
type Usage struct {
	Wall    time.Duration `json:"wall_ns"` // on a clock of the process's own
	CPU     time.Duration `json:"cpu_ns"`  // user and system, from the operating system
	Mallocs uint64        `json:"mallocs"` // objects allocated
	Peak    int64         `json:"peak_b"`  // largest resident size in bytes; 0 where /proc is missing

	// Of the process: calls of read and write, of any kind but for recvmsg and
	// sendmsg. 0 where /proc is missing.
	Reads  uint64 `json:"reads"`
	Writes uint64 `json:"writes"`
	// Of the machine: bytes through the loopback interface, with all headers
	// and acknowledgements. 0 where /proc is missing.
	Loopback uint64 `json:"loopback_b"`
	// The same through all other interfaces, in and out.
	Network uint64 `json:"network_b"`
}

// Sub returns what was used between earlier and u. Peak is a peak and stays.
func (u Usage) Sub(earlier Usage) Usage {
	u.Wall -= earlier.Wall
	u.CPU -= earlier.CPU
	u.Mallocs -= earlier.Mallocs
	u.Reads -= earlier.Reads
	u.Writes -= earlier.Writes
	u.Loopback -= earlier.Loopback
	u.Network -= earlier.Network
	return u
}

// readUsage takes some 50 µs, in which the process stands still for a moment.
func readUsage(epoch time.Time) (Usage, error) {
	cpu, err := cpuTime()
	if err != nil {
		return Usage{}, err
	}
	wall := time.Since(epoch)
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	loopback, network := traffic("/proc/self/net/dev")
	return Usage{
		Wall:    wall,
		CPU:     cpu,
		Mallocs: mem.Mallocs,
		Peak:    peakResident(),

		Reads:    ProcField("/proc/self/io", "syscr:"),
		Writes:   ProcField("/proc/self/io", "syscw:"),
		Loopback: loopback,
		Network:  network,
	}, nil
}

// peakResident reads VmHWM, which unlike getrusage's maximum does not begin
// with the size of the process that started this one.
func peakResident() int64 {
	return int64(ProcField("/proc/self/status", "VmHWM:")) << 10 //nolint:gosec // KiB of memory
}

// traffic reads how many bytes have crossed the interfaces that file lists: the
// loopback interface, where what one end sends the other receives, and all
// others, in and out. Both are 0 when there is no such file.
func traffic(file string) (loopback, network uint64) {
	const received, sent = 1, 9 // columns, after the interface's name
	text, _ := os.ReadFile(file)
	for line := range bytes.Lines(text) {
		f := bytes.Fields(bytes.Replace(line, []byte(":"), []byte(" "), 1))
		if len(f) <= sent {
			continue
		}
		in, _ := strconv.ParseUint(string(f[received]), 10, 64) // the heading has no numbers
		out, _ := strconv.ParseUint(string(f[sent]), 10, 64)
		if string(f[0]) == "lo" {
			loopback += in
		} else {
			network += in + out
		}
	}
	return loopback, network
}

// ProcField returns the first number after a label in a file of /proc, 0 if
// there is none.
func ProcField(file, label string) uint64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(text, []byte(label))
	fields := bytes.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	n, _ := strconv.ParseUint(string(fields[0]), 10, 64)
	return n
}
