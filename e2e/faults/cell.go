package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// cell is an experiment: a load, a fault, and the bars (pass criteria) that it is judged by.
type cell struct {
	Name, Title string
	Short       bool     // runs with -short
	Alone       bool     // does not run in parallel with other cells
	Clock       bool     // its processes run the -clock binary, whose clock can be set
	Systems     []string // systems that can run the cell; all by default
	Beside      string   // system that the bars compare tandem with; none by default
	Instances   int
	Usage       bool                        // measure goroutines and heap of client and servers before and after the load
	Slow        int                         // factor by which server 0 is slower than the others; 0 for equally fast
	Files       int                         // descriptors that a server may have open; 0 for the system's limit
	MaxAge      time.Duration               // maximum age of the servers' connections; none by default
	Pinned      bool                        // all servers share processor 0; the client has the other processors
	Burden      string                      // the handlers' work, see burden; they sleep if it is empty
	Chain       bool                        // each server calls the next; only the last one has the burden
	Balanced    bool                        // the client connects through a TCP load balancer
	Registry    string                      // kind of the registry that lists the servers; none by default
	Store       string                      // kind of the store in which the servers keep the records of keyed calls; none by default
	Before      func(r *rig, p *plan) error // runs after the servers have started and before the client starts
	Load        plan
	Link        link                     // applies from the beginning, in all arms except the control arm
	At          time.Duration            // time from the start of the load to the fault
	Fault       func(r *rig) error       // runs during the load and returns when the fault is over
	Paired      bool                     // run -pairs rounds with each congestion control, see lab.arms
	MaxRounds   int                      // upper bound of -pairs; 0 for no bound
	Proof       func(r *rig) error       // runs after the load; records a proof, or returns why the fault had no effect
	Judge       func(o *outcome) []check // bars in addition to generalChecks
}

// cells returns all cells in the order of the report.
func cells(s settings) []cell {
	return slices.Concat(stopCells(), holeCells(), restartCells(), crashCells(s.fast), onceCells(s.fast), linkCells(), uploadCells(),
		streamCells(), crowdCells(s.soak), herdCells(), registryCells(), collapseCells(), clockCells(), overloadCells(s.fast))
}

// arm is one run of a cell.
type arm struct {
	System  string
	CC      string
	Round   int
	Control bool // without the fault
}

func (a arm) String() string {
	s := a.System + " " + a.CC
	if a.Round > 0 {
		s += fmt.Sprintf(" round %d", a.Round+1)
	}
	if a.Control {
		s += " control"
	}
	return s
}

// armResult holds the measurements of one arm.
type armResult struct {
	arm
	entries        []entry
	fresh          []entry // calls of a second client, which starts after the load
	ran            executions
	start          time.Time // of the load
	began          time.Time // start of the fault
	ended          time.Time // end of the fault
	proof          []string
	client, server change
	capacity       float64 // calls a second that the server can handle
	refused        int     // requests that the last server refused
	opened         int     // connections that the clients attempted during the fault
	resident       []int   // resident memory of server 0 in KiB, sampled during the load
	invalid        error   // why the arm proves nothing; nil if it is valid
	wholeRun       time.Duration
}

func (r *armResult) summary(keep func(entry) bool) summary {
	return summarize(r.entries, r.ran, keep)
}

func all(entry) bool           { return true }
func isSafeEntry(e entry) bool { return isSafe(e.Variant) }
func notCanceled(e entry) bool { return e.Variant != variantCancel }
func isSmall(e entry) bool     { return e.Variant != variantUpload }
func isUpload(e entry) bool    { return e.Variant == variantUpload }

// outcome is a cell with its arms and the verdict.
type outcome struct {
	cell   cell
	arms   []*armResult
	checks []check
}

func (o *outcome) ok() bool {
	return !slices.ContainsFunc(o.checks, func(c check) bool { return !c.OK })
}

// of returns the arms of a system with a congestion control, without the control arm.
func (o *outcome) of(system, cc string) []*armResult {
	var found []*armResult
	for _, a := range o.arms {
		if a.System == system && a.CC == cc && !a.Control {
			found = append(found, a)
		}
	}
	return found
}

// tandems returns all valid arms of tandem, without the control arms.
func (o *outcome) tandems() []*armResult {
	var found []*armResult
	for _, a := range o.arms {
		if a.System == sysTandem && !a.Control && a.invalid == nil {
			found = append(found, a)
		}
	}
	return found
}

// lab runs cells.
type lab struct {
	settings settings
	dir      string
	out      io.Writer

	mu   sync.Mutex
	done []outcome
	err  error // from writing a report
}

// runCells runs the cells that may run in parallel in lanes, then the others one by one.
// Each cell is added to the report as soon as it has finished.
func (l *lab) runCells(ctx context.Context, chosen []cell) ([]outcome, error) {
	free := make(chan int, l.settings.lanes)
	for lane := range l.settings.lanes {
		free <- lane
	}
	var running sync.WaitGroup
	for _, c := range l.longestFirst(chosen) {
		if c.Alone {
			continue
		}
		lane := <-free
		running.Go(func() {
			l.runCell(ctx, c, lane)
			free <- lane
		})
	}
	running.Wait()
	for _, c := range chosen {
		if c.Alone {
			l.runCell(ctx, c, 0)
		}
	}
	return l.done, l.err
}

// longestFirst sorts cells by duration, longest first, so that the lanes end at about the same
// time.
func (l *lab) longestFirst(chosen []cell) []cell {
	length := func(c cell) time.Duration { return time.Duration(len(l.arms(c))) * c.Load.Duration }
	return slices.SortedStableFunc(slices.Values(chosen), func(a, b cell) int { return cmp.Compare(length(b), length(a)) })
}

// finish stores the outcome of a cell and updates the report.
func (l *lab) finish(o outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done = append(l.done, o)
	if l.settings.out != "" {
		l.err = errors.Join(l.err, writeReport(l.settings.out, []outcome{o}, l.settings))
	}
}

// printf writes lines about a cell. Each line begins with the cell's name.
func (l *lab) printf(c cell, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(fmt.Sprintf(format, args...)) {
		fmt.Fprintf(l.out, "%-17s %s", c.Name, line)
	}
}

// runCell runs every arm of a cell and judges it. An interrupted cell has no outcome.
func (l *lab) runCell(ctx context.Context, c cell, lane int) {
	if ctx.Err() != nil {
		return
	}
	l.printf(c, "== %s\n", c.Title)
	o := outcome{cell: c}
	for _, a := range l.arms(c) {
		began := time.Now()
		r := l.runArm(ctx, c, a, lane)
		if ctx.Err() != nil {
			return
		}
		r.wholeRun = time.Since(began)
		l.printArm(c, r)
		o.arms = append(o.arms, r)
		o.checks = append(o.checks, generalChecks(c, r)...)
	}
	o.judge()
	for _, ch := range o.checks {
		if !ch.OK {
			l.printf(c, "   MISSED %s: %s, bar %s\n", ch.What, ch.Got, ch.Bar)
		}
	}
	l.finish(o)
}

// judge adds the cell's own bars. They are about tandem, so tandem must have run.
func (o *outcome) judge() {
	if len(o.tandems()) == 0 {
		o.checks = append(o.checks, check{What: sysTandem, Bar: "ran", Got: "no valid arm with the fault"})
	}
	if o.cell.Judge != nil {
		o.checks = append(o.checks, o.cell.Judge(o)...)
	}
}

// arms lists the runs of a cell. For each congestion control, all systems run a control arm,
// and then the rounds with the fault, in which the systems take turns. From the second round
// on only tandem and c.Beside run, because no bar uses the others.
func (l *lab) arms(c cell) []arm {
	systems := l.systems(c)
	ccs := strings.Split(l.settings.cc, ",")
	rounds := l.settings.pairs
	if c.MaxRounds > 0 {
		rounds = min(rounds, c.MaxRounds)
	}
	if !c.Paired {
		ccs, rounds = ccs[:1], 1
	}
	var arms []arm
	for _, cc := range ccs {
		for _, s := range systems {
			arms = append(arms, arm{System: s, CC: cc, Control: true})
		}
		for round := range rounds {
			for _, s := range systems {
				if round > 0 && s != sysTandem && s != c.Beside {
					continue
				}
				arms = append(arms, arm{System: s, CC: cc, Round: round})
			}
		}
	}
	return arms
}

// systems returns the systems that run in a cell: those that -systems names and that can run
// the cell, and the system that tandem is compared with.
func (l *lab) systems(c cell) []string {
	chosen := strings.Split(l.settings.systems, ",")
	if l.settings.short {
		chosen = []string{sysTandem}
	}
	if c.Beside != "" && !slices.Contains(chosen, c.Beside) {
		chosen = append(chosen, c.Beside)
	}
	return slices.DeleteFunc(chosen, func(s string) bool { return len(c.Systems) > 0 && !slices.Contains(c.Systems, s) })
}

func (l *lab) printArm(c cell, r *armResult) {
	s := r.summary(all)
	line := fmt.Sprintf("   %-24s %5d calls %5d failed  p50 %-8v p99 %-8v max %-8v", r.arm, s.Made, s.Failed, round(s.P50), round(s.P99), round(s.Max))
	if s.Doubles+s.Lost+s.Contradictions > 0 {
		line += fmt.Sprintf(" doubles %d lost %d contradictions %d", s.Doubles, s.Lost, s.Contradictions)
	}
	if s.Failed > 0 {
		line += " (" + s.codes() + ")"
	}
	l.printf(c, "%s [%v]\n", line, r.wholeRun.Round(100*time.Millisecond))
	if len(r.proof) > 0 {
		l.printf(c, "   %24s %s\n", "proof:", strings.Join(r.proof, "; "))
	}
	if r.invalid != nil {
		l.printf(c, "   %24s %v\n", "INVALID:", r.invalid)
	}
}

// generalChecks returns the bars that apply to every arm.
func generalChecks(c cell, r *armResult) []check {
	name := r.arm.String()
	if r.invalid != nil {
		if r.System != sysTandem && errors.Is(r.invalid, errNotReady) && !r.Control {
			return nil // the system can't run in this cell: the report says so
		}
		return []check{{What: name, Bar: "a valid run", Got: r.invalid.Error()}}
	}
	s := r.summary(all)
	checks := []check{atLeast(name+": calls made", s.Made, floor(c, r))}
	if r.Control {
		checks = append(checks, atMost(name+": failed", r.summary(notCanceled).Failed, 0))
	}
	if !r.Control {
		checks = append(checks, atLeast(name+": proofs that the fault had an effect", len(r.proof), 1))
	}
	if r.System != sysTandem {
		return checks
	}
	checks = append(checks,
		atMost(name+": executed twice", s.Doubles, 0),
		atMost(name+": succeeded without execution", s.Lost, 0),
		atMost(name+": executed although the error says NotExecuted", s.Contradictions, 0),
		atMost(name+": executed, but never called", r.uncalled(), 0),
		atMost(name+": returned more than 2 s after the deadline", r.overdue(c), 0))
	if !r.Control && c.At > 0 && !c.Balanced {
		before := r.serversUsed(func(at time.Time) bool { return at.Before(r.began) })
		checks = append(checks, atLeast(name+": servers that ran calls before the fault", before, c.Instances))
	}
	if r.fresh != nil {
		late := summarize(r.fresh, r.ran, all)
		checks = append(checks,
			atLeast(name+": calls made by a new client after the fault", late.Made, 1),
			atMost(name+": failed of those", late.Failed, 0))
	}
	return checks
}

// uncalled counts executions of calls that no client made.
func (r *armResult) uncalled() int {
	called := map[uint64]bool{}
	for _, e := range slices.Concat(r.entries, r.fresh) {
		called[e.ID] = true
	}
	n := 0
	for id := range r.ran {
		if !called[id] {
			n++
		}
	}
	return n
}

// overdue counts calls that returned more than 2 s after their deadline.
func (r *armResult) overdue(c cell) int {
	n := 0
	for _, e := range r.entries {
		deadline := c.Load.Deadline
		if isUpload(e) {
			deadline = c.Load.UploadDeadline
		}
		if e.took() > deadline+2*time.Second {
			n++
		}
	}
	return n
}

// serversUsed counts the servers that ran a call at a time that keep accepts.
func (r *armResult) serversUsed(keep func(time.Time) bool) int {
	used := map[int]bool{}
	for _, runs := range r.ran {
		for _, e := range runs {
			if keep(e.at) {
				used[e.server] = true
			}
		}
	}
	return len(used)
}

// floor returns how many calls an arm must have made to be valid.
func floor(c cell, r *armResult) int {
	if c.Load.Uploads > 0 {
		return c.Load.Uploads
	}
	return int(0.9 * c.Load.Rate * loadTime(c, r.arm).Seconds())
}

// loadTime returns for how long calls begin: at most 3 s in a control arm.
func loadTime(c cell, a arm) time.Duration {
	if a.Control {
		return min(c.Load.Duration, 3*time.Second)
	}
	return c.Load.Duration
}

// armDir creates an empty directory for an arm's journals.
func (l *lab) armDir(c cell, a arm) (string, error) {
	dir := filepath.Join(l.dir, c.Name, strings.ReplaceAll(a.String(), " ", "-"))
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	return dir, os.MkdirAll(dir, 0o755)
}
