package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// registryCells returns cells in which the servers' registry fails.
func registryCells() []cell {
	var cells []cell
	for _, kind := range []string{kindEtcd, kindRedis, kindZooKeeper, kindConsul, kindFile} {
		for _, f := range []struct {
			name, title string
			seconds     int
			fault       func(*rig) error
		}{
			{"kill", "is killed for 15 s, longer than entries live, and comes back with its data", 25, killRegistry(15*time.Second, false)},
			{"wipe", "is killed and comes back without its data", 15, killRegistry(time.Second, true)},
			{"stop", "is stopped for 15 s", 25, stopRegistry(15 * time.Second)},
			{"flap", "is killed for 3 s and runs for 3 s, four times", 32, flapRegistry(4, 3*time.Second)},
		} {
			if kind == kindFile && f.name == "stop" {
				continue // a directory has no process to stop
			}
			load := light(time.Duration(f.seconds)*time.Second, []string{"failover" + variantSafe, "failfast"})
			cells = append(cells, cell{
				Name: f.name + "-" + kind, Title: "the registry (" + kind + ") " + f.title, Systems: []string{sysTandem},
				Short:     f.name == "wipe" && kind == kindRedis,
				Instances: 3, Registry: kind, Load: load, At: 3 * time.Second, Fault: f.fault, Proof: freshClient, Judge: allServe,
			})
		}
	}
	away := func(name, title string, c cell) cell {
		c.Name, c.Title, c.Systems, c.Instances, c.Registry = name, title, []string{sysTandem}, 2, kindRedis
		c.Load = light(6*time.Second, []string{variantDefault})
		c.Load.Deadline, c.Load.Unwarmed = 5*time.Second, true
		return c
	}
	return append(cells,
		away("away-briefly", "a client starts while its registry is down; the registry comes back after 1.5 s", cell{
			Before: registryAway, Fault: func(r *rig) error { r.wait(1500 * time.Millisecond); return r.registry.start() }, Judge: noneFailed,
		}),
		away("away", "a client starts while its registry is down", cell{Short: true, Before: registryAway, Judge: clearErrors}),
		away("away-snapshot", "a client starts with a snapshot of the registry's list while the registry is down", cell{
			Short: true, Before: snapshotThenAway, Judge: noneFailed,
		}))
}

// killRegistry kills the registry and starts it again after d. With wipe, its data is removed.
func killRegistry(d time.Duration, wipe bool) func(*rig) error {
	return func(r *rig) error {
		r.registry.kill()
		if wipe {
			if err := r.registry.wipe(); err != nil {
				return err
			}
		}
		r.wait(d)
		r.provef("killed for %v, its data removed: %v", d, wipe)
		return r.registry.start()
	}
}

func stopRegistry(d time.Duration) func(*rig) error {
	return func(r *rig) error {
		if err := r.registry.signal(syscall.SIGSTOP); err != nil {
			return err
		}
		p := &process{cmd: r.registry.cmd}
		if err := p.awaitState('T'); err != nil {
			return err
		}
		r.provef("process %d in state T", p.cmd.Process.Pid)
		r.wait(d)
		if err := p.awaitState('T'); err != nil {
			return fmt.Errorf("the registry did not stay stopped: %w", err)
		}
		return r.registry.signal(syscall.SIGCONT)
	}
}

func flapRegistry(times int, each time.Duration) func(*rig) error {
	return func(r *rig) error {
		for range times {
			if err := killRegistry(each, false)(r); err != nil {
				return err
			}
			r.wait(each)
		}
		return nil
	}
}

// registryAway kills the registry before the client starts. In the control arm the registry
// keeps running.
func registryAway(r *rig, _ *plan) error {
	if !r.arm.Control {
		r.registry.kill()
		r.provef("the registry is down")
	}
	return nil
}

// snapshotThenAway runs a first client, which writes a snapshot, and then kills the registry.
func snapshotThenAway(r *rig, p *plan) error {
	p.Snapshots = filepath.Join(r.dir, "snapshots")
	first := *p
	first.Unwarmed = false
	c, err := r.startClient(first)
	if err != nil {
		return err
	}
	c.kill()
	files, err := filepath.Glob(filepath.Join(p.Snapshots, "*"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("the first client left no snapshot in %s: %w", p.Snapshots, err)
	}
	return registryAway(r, p)
}

// allServe is the bar that no call fails and that a client that starts after the fault reaches
// every server.
func allServe(o *outcome) []check {
	checks := noneFailed(o)
	for _, a := range o.tandems() {
		used := map[int]bool{}
		for _, e := range a.fresh {
			for _, x := range a.ran[e.ID] {
				used[x.server] = true
			}
		}
		checks = append(checks, atLeast(a.String()+": servers that a new client reaches after the fault", len(used), o.cell.Instances))
	}
	return checks
}

// clearErrors is the bar for a registry that stays down: the first call waits at least 2 s,
// and every error is "unavailable" and contains the registry's address.
func clearErrors(o *outcome) []check {
	var checks []check
	for _, a := range o.tandems() {
		vague := a.summary(func(e entry) bool {
			return !e.ok() && (e.Code != "unavailable" || !strings.Contains(e.Message, "redis://"))
		})
		first := firstCall(a).took()
		checks = append(checks,
			atMost(a.String()+": errors that don't name the registry", vague.Made, 0),
			check{a.String() + ": the first call's wait", "≥ 2s", fmt.Sprint(round(first)), first >= 2*time.Second})
		if vague.Made > 0 {
			checks = append(checks, check{What: a.String() + ": the first error", Bar: "names the registry", Got: firstCall(a).Message})
		}
	}
	return checks
}

// firstCall returns the call that was due first.
func firstCall(a *armResult) entry {
	return slices.MinFunc(append(a.entries, entry{At: math.MaxInt64}), func(x, y entry) int { return cmp.Compare(x.At, y.At) })
}

// freshJournal is the name of the second client's journal.
const freshJournal = "fresh.jsonl"

// freshIDs is the FirstID of a second client, so that its IDs differ from the first client's.
const freshIDs = 1 << 32

// freshClient runs a new client for 2 s. It finds the servers through the registry, if the
// cell has one.
func freshClient(r *rig) error {
	p := r.plan
	p.Duration, p.FirstID, p.Journal = 2*time.Second, freshIDs, filepath.Join(r.dir, freshJournal)
	c, err := r.startClient(p)
	if err != nil {
		return err
	}
	defer c.kill()
	if _, err := fmt.Fprintln(c.in, "go"); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, c.out) // returns when the process has ended
	return errors.Join(err, c.cmd.Wait())
}
