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
}

// Sub returns what was used between earlier and u. Peak is a peak and stays.
func (u Usage) Sub(earlier Usage) Usage {
	u.Wall -= earlier.Wall
	u.CPU -= earlier.CPU
	u.Mallocs -= earlier.Mallocs
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
	return Usage{
		Wall:    wall,
		CPU:     cpu,
		Mallocs: mem.Mallocs,
		Peak:    peakResident(),
	}, nil
}

// peakResident reads VmHWM, which unlike getrusage's maximum does not begin
// with the size of the process that started this one.
func peakResident() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(status, []byte("VmHWM:"))
	fields := bytes.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	kib, _ := strconv.ParseInt(string(fields[0]), 10, 64)
	return kib << 10
}
