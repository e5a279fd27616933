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

// usage is what a process holds.
type usage struct {
	goroutines int
	heap       uint64 // bytes that live after a collection
	refused    uint64 // requests that were refused because of overload
	cpu        time.Duration
}

// change is the usage before a load and after it, the sum of several processes.
type change struct{ before, after usage }

const (
	usageFormat = "%d goroutines, heap %d, %d refused, CPU %d"
	statsFormat = "%d then %d goroutines, heap %d then %d"
)

// ownUsage returns the usage of this process. It first waits a second for goroutines that are
// about to end.
func ownUsage() usage {
	time.Sleep(time.Second)
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{goroutines: runtime.NumGoroutine(), heap: m.HeapAlloc, cpu: ownCPU()}
}

// ownCPU is the processor time that this process has used.
func ownCPU() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r) // can't fail for this process
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// reportUsage writes a line of the process's usage whenever it gets SIGUSR1.
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

// serverUsage asks every server.
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

// watchMemory takes the resident memory of server 0 ten times during the load.
func (r *rig) watchMemory(d time.Duration) {
	for range memoryLooks {
		r.wait(d / (memoryLooks + 1))
		kib, err := residentKiB(r.servers[0].cmd.Process.Pid)
		if err != nil || r.ctx.Err() != nil {
			return // the bar notices that there are too few
		}
		r.result.resident = append(r.result.resident, kib)
	}
}

const memoryLooks = 10

// residentKiB is the memory that a process holds.
func residentKiB(pid int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return sumAfter(string(text), "VmRSS:"), err
}

// noLeak checks that no call fails, and that both sides hold as many goroutines and as much memory
// as before the load.
func noLeak(o *outcome) []check {
	const spare = 1 << 20   // bytes of heap
	const growth = 16 << 10 // KiB of resident memory, from the second look on
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
		checks = append(checks, atLeast(a.String()+": looks at the server's memory", looks, memoryLooks))
		if looks == memoryLooks {
			checks = append(checks, atMost(a.String()+": KiB resident in the server at the end", a.resident[looks-1], a.resident[1]+growth))
		}
	}
	return checks
}
