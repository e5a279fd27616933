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
	Wall    time.Duration `json:"wall_ns"` // time on a clock of the process's own
	CPU     time.Duration `json:"cpu_ns"`  // user and system, from the operating system
	Mallocs uint64        `json:"mallocs"` // objects allocated
	Peak    int64         `json:"peak_b"`  // largest resident size in bytes; 0 where /proc is missing

	// Calls of read and write, of any kind but for recvmsg and sendmsg. 0 where /proc
	// is missing.
	Reads  uint64 `json:"reads"`
	Writes uint64 `json:"writes"`
}

// Sub returns the usage between earlier and u. Peak is not a difference.
func (u Usage) Sub(earlier Usage) Usage {
	u.Wall -= earlier.Wall
	u.CPU -= earlier.CPU
	u.Mallocs -= earlier.Mallocs
	u.Reads -= earlier.Reads
	u.Writes -= earlier.Writes
	return u
}

// readUsage returns the usage so far. It takes some 50 us, in which the process stops for a
// moment.
func readUsage(epoch time.Time) (Usage, error) {
	cpu, err := cpuTime()
	if err != nil {
		return Usage{}, err
	}
	wall := time.Since(epoch)
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	return Usage{
		Wall:    wall,
		CPU:     cpu,
		Mallocs: mem.Mallocs,
		Peak:    peakResident(),
		Reads:   procField("/proc/self/io", "syscr:"),
		Writes:  procField("/proc/self/io", "syscw:"),
	}, nil
}

// peakResident reads VmHWM, which unlike getrusage's maximum does not begin
// with the size of the process that started this one.
func peakResident() int64 {
	return int64(procField("/proc/self/status", "VmHWM:")) << 10 //nolint:gosec // KiB of memory
}

// procField returns the first number after a label in a file of /proc, 0 if
// there is none.
func procField(file, label string) uint64 {
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
