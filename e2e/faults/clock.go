package main

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// clockCells returns cells that step the wall clocks of processes, as an operator or NTP does.
// The monotonic clocks are not changed. The cells need the binary that clock.sh builds.
func clockCells() []cell {
	var cells []cell
	for _, kind := range []string{kindRedis, kindEtcd, kindFile} {
		load := light(22*time.Second, longModes())
		load.Deadline = 5 * time.Second
		cells = append(cells, cell{
			Name: "clock-" + kind, Title: "the clocks of the client and of one of three servers (registry: " + kind + ") jump 1 h forward, 2 h back, and 1 h forward",
			Systems: []string{sysTandem}, Clock: true, Instances: 3, Registry: kind, Load: load, At: 3 * time.Second,
			Fault: jumpClocks, Proof: freshClient, Judge: noneFailed,
		})
	}
	return cells
}

// jumpClocks steps the clock of the client and then that of server 0, three times.
func jumpClocks(r *rig) error {
	for _, hours := range []int{1, -1, 0} {
		for _, p := range []struct {
			process *process
			journal string
		}{{r.client, r.plan.Journal}, {r.servers[0], serverJournal(r.dir, 0)}} {
			if err := setClock(p.process, p.journal, hours); err != nil {
				return err
			}
			r.wait(2500 * time.Millisecond)
		}
		r.provef("clocks set to %+d h", hours)
	}
	return nil
}

// The extensions of files next to a process's journal. The lab writes the offset of the
// process's clock, in hours, to journal+clockExt. The process answers with its new time in
// journal+clockExt+seenExt.
const (
	clockExt = ".clock"
	seenExt  = ".seen"
)

// setClock sets the clock of a process to the true time plus hours. It waits until the process
// has confirmed its new time.
func setClock(p *process, journal string, hours int) error {
	path := journal + clockExt
	_ = os.Remove(path + seenExt) // it may not exist
	if err := os.WriteFile(path, []byte(strconv.Itoa(hours)), 0o600); err != nil {
		return err
	}
	if err := p.cmd.Process.Signal(syscall.SIGUSR2); err != nil {
		return err
	}
	for range 200 {
		time.Sleep(5 * time.Millisecond)
		text, err := os.ReadFile(path + seenExt) //nolint:gosec // the lab's own directory
		if err != nil || !strings.HasSuffix(string(text), "\n") {
			continue
		}
		seen, err := time.Parse(time.RFC3339, strings.TrimSpace(string(text)))
		if err != nil {
			return fmt.Errorf("process %d: the time after its clock was set to %+d h: %w", p.cmd.Process.Pid, hours, err)
		}
		if off := seen.Sub(time.Now().Add(time.Duration(hours) * time.Hour)).Abs(); off > time.Minute {
			return fmt.Errorf("process %d has the time %s after its clock was set to %+d h", p.cmd.Process.Pid, text, hours)
		}
		return nil
	}
	return fmt.Errorf("process %d did not set its clock within 1 s: build the binary of -clock with clock.sh", p.cmd.Process.Pid)
}

// followClock starts a goroutine that sets this process's clock on each SIGUSR2.
func followClock(journal string) {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGUSR2)
	go func() {
		for range told {
			path := journal + clockExt
			text, err := os.ReadFile(path) //nolint:gosec // the lab's own directory
			if err != nil {
				continue // setClock fails because there is no answer
			}
			hours, _ := strconv.Atoi(string(text)) // the lab wrote it
			stepClock(time.Duration(hours) * time.Hour)
			_ = os.WriteFile(path+seenExt, []byte(time.Now().Format(time.RFC3339)+"\n"), 0o600) // if this fails, setClock fails
		}
	}()
}
