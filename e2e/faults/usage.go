package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

// usage holds the resources that a process uses.
type usage struct {
	goroutines int
	heap       uint64        // live bytes after a garbage collection
	refused    uint64        // requests that the server refused because of overload
	cpu        time.Duration // processor time since the start of the process
}

// change holds the usage before and after a load, summed over the processes of one side.
type change struct{ before, after usage }

const (
	usageFormat = "%d goroutines, heap %d, %d refused, CPU %d"
	statsFormat = "%d then %d goroutines, heap %d then %d"
)

// ownUsage returns the usage of this process. It first sleeps for 1 s, so that goroutines that
// are about to end are not counted.
func ownUsage() usage {
	time.Sleep(time.Second)
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{goroutines: runtime.NumGoroutine(), heap: m.HeapAlloc, cpu: ownCPU()}
}

// ownCPU returns the processor time that this process has used.
func ownCPU() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r) // can't fail for this process
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// reportUsage starts a goroutine that writes the process's usage to w on each SIGUSR1.
func reportUsage(w io.Writer, refused func() uint64) {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	go func() {
		for range asked {
			u := ownUsage()
			if refused != nil {
				u.refused = refused()
			}
			_, _ = fmt.Fprintf(w, usageFormat+"\n", u.goroutines, u.heap, u.refused, u.cpu) // the lab reads it, or has ended
		}
	}()
}

// serverUsage returns the sum of goroutines and heap of all servers.
func (r *rig) serverUsage() (sum usage, err error) {
	for _, s := range r.servers {
		u, err := s.usage()
		if err != nil {
			return sum, err
		}
		sum.goroutines += u.goroutines
		sum.heap += u.heap
	}
	return sum, nil
}

// usage asks a server process for its usage.
func (p *process) usage() (u usage, err error) {
	if err := p.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		return u, err
	}
	line, err := p.out.ReadString('\n')
	if err != nil {
		return u, err
	}
	_, err = fmt.Sscanf(line, usageFormat, &u.goroutines, &u.heap, &u.refused, &u.cpu)
	return u, err
}

// watchMemory samples the resident memory of server 0 ten times during the load, which takes
// d.
func (r *rig) watchMemory(d time.Duration) {
	for range memoryLooks {
		r.wait(d / (memoryLooks + 1))
		kib, err := residentKiB(r.servers[0].cmd.Process.Pid)
		if err != nil || r.ctx.Err() != nil {
			return // too few samples: noLeak fails
		}
		r.result.resident = append(r.result.resident, kib)
	}
}

const memoryLooks = 10

// residentKiB returns the resident memory of a process in KiB.
func residentKiB(pid int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return sumAfter(string(text), "VmRSS:"), err
}

// noLeak is the bar that no call fails, except cancelled ones, and that client and server use
// about as many goroutines and as much memory after the load as before it.
func noLeak(o *outcome) []check {
	const spare = 1 << 20   // allowed growth of the heap, in bytes
	const growth = 16 << 10 // allowed growth of the resident memory since the second sample, in KiB
	var checks []check
	for _, a := range o.tandems() {
		kept := a.summary(notCanceled)
		checks = append(checks, atMost(a.String()+": failed", kept.Failed, 0))
		for _, side := range []struct {
			name string
			change
		}{{"client", a.client}, {"server", a.server}} {
			checks = append(checks,
				atLeast(a.String()+": goroutines of the "+side.name+" before the load", side.before.goroutines, 1),
				atMost(a.String()+": goroutines of the "+side.name+" after the load", side.after.goroutines, side.before.goroutines+2),
				atMost(a.String()+": KiB of heap of the "+side.name+" after the load", int(side.after.heap>>10), int((side.before.heap+spare)>>10))) //nolint:gosec // small
		}
		looks := len(a.resident)
		checks = append(checks, atLeast(a.String()+": samples of the server's memory", looks, memoryLooks))
		if looks == memoryLooks {
			checks = append(checks, atMost(a.String()+": KiB resident in the server at the end", a.resident[looks-1], a.resident[1]+growth))
		}
	}
	return checks
}
