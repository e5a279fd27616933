// Faults is the fault lab: it runs servers and clients as real processes in network
// namespaces, breaks the network or the processes under load, and compares what both
// sides wrote down. Linux only, as root; "make faults" runs all of it.
//
//	cd faults && GOWORK=off go run . -list
//	cd faults && GOWORK=off go run . -run stop3s,upload -systems tandem,grpc -fast
//	cd faults && GOWORK=off go run . -run upload-200x200k -cc cubic -pairs 5
//	cd faults && GOWORK=off go run . -run memory -soak 1h -systems tandem
//
// A cell is a load, a fault and bars. Each cell runs once for each system and
// congestion control, after a control arm that has the same load without the fault.
// Cells that need little of the machine run beside each other in lanes, each with a
// network of its own; the others run by themselves.
// The exit status is 1 if a bar was missed or an arm was invalid: its fault did not
// take, its control arm failed, or it made too few calls.
//
// The lab works in namespaces of its own, which end with it. It changes nothing in the
// namespace that it was started in.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// The roles in which the lab starts itself again.
const (
	roleServe = "role-serve"
	roleLoad  = "role-load"
	roleCrowd = "role-crowd"
	roleRelay = "role-relay"

	envInside = "FAULTS_INSIDE" // set in the process that has namespaces of its own
)

// settings are the lab's flags.
type settings struct {
	run     string
	systems string
	cc      string
	pairs   int
	lanes   int
	fast    bool
	short   bool
	list    bool
	resume  bool
	report  bool
	soak    time.Duration
	clock   string
	spoil   string
	keep    string
	out     string
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case roleServe:
			return serveRole(args[1:])
		case roleLoad:
			return loadRole(os.Stdin, os.Stdout)
		case roleCrowd:
			return crowdRole(args[1:], os.Stdout)
		case roleRelay:
			return relayRole(args[1:])
		}
	}
	s, err := parseFlags(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	case s.list:
		return list(os.Stdout, s)
	case s.report:
		return writeReport(s.out, nil, s)
	case os.Getenv(envInside) == "":
		return inside(args)
	}
	return runLab(s)
}

func parseFlags(args []string) (settings, error) {
	var s settings
	f := flag.NewFlagSet("faults", flag.ContinueOnError)
	f.StringVar(&s.run, "run", "", "run the cells whose names begin with one of these, separated by commas; all by default")
	f.StringVar(&s.systems, "systems", "tandem,grpc,rpcx", "systems to run, separated by commas; what a bar compares tandem with runs too")
	f.StringVar(&s.cc, "cc", "cubic,bbr", "congestion controls for cells that depend on them, separated by commas")
	f.IntVar(&s.pairs, "pairs", 5, "rounds of the cells that compare systems")
	f.IntVar(&s.lanes, "lanes", 4, "cells that run at the same time, of those that need little of the machine")
	f.BoolVar(&s.fast, "fast", false, "one round, with the first congestion control only, and short forms of the long cells")
	f.BoolVar(&s.short, "short", false, "only the cells of the short form, with the systems that their bars need, and as -fast")
	f.BoolVar(&s.list, "list", false, "list the cells and stop")
	f.BoolVar(&s.resume, "resume", false, "skip the cells whose results in -out are of this build and these settings, as after an interruption")
	f.BoolVar(&s.report, "report", false, "only write the report of the results in -out, and run nothing")
	f.DurationVar(&s.soak, "soak", 0, "how long the cell memory runs; 3m by default, 30s with -fast; at most a million calls are made")
	f.StringVar(&s.clock, "clock", "", "the lab's binary whose clock can be set, which clock.sh builds; without it the clock cells do not run")
	f.StringVar(&s.spoil, "spoil", "", "make the servers misbehave, to see that cells fail: drop, twice or lose, of every 50th call")
	f.StringVar(&s.keep, "keep", "", "folder in which to keep the journals of every arm; none by default")
	f.StringVar(&s.out, "out", "", "folder of the Markdown report and its plots, in which the cells that ran are replaced; none by default")
	if err := f.Parse(args); err != nil {
		return s, err
	}
	if f.NArg() > 0 {
		return s, fmt.Errorf("arguments %q: only flags are expected: see -help", f.Args())
	}
	if s.fast = s.fast || s.short; s.fast {
		s.pairs = 1
		s.cc, _, _ = strings.Cut(s.cc, ",")
	}
	switch {
	case s.lanes < 1 || s.lanes > 16:
		return s, fmt.Errorf("-lanes %d: want 1 to 16", s.lanes)
	case (s.resume || s.report) && s.out == "":
		return s, errors.New("-resume and -report need -out")
	case !slices.Contains([]string{"", spoilDrop, spoilTwice, spoilLose}, s.spoil):
		return s, fmt.Errorf("-spoil %q: want %s, %s or %s", s.spoil, spoilDrop, spoilTwice, spoilLose)
	case s.soak == 0 && s.fast:
		s.soak = 30 * time.Second
	case s.soak == 0:
		s.soak = 3 * time.Minute
	}
	return s, nil
}

// inside runs the lab again in a network and a mount namespace of its own: all others
// that it makes disappear with it, however it ends.
func inside(args []string) error {
	if os.Geteuid() != 0 {
		return errors.New("network namespaces need root: run it with sudo")
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, args...) //nolint:gosec // this program
	cmd.Env = append(os.Environ(), envInside+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:   syscall.CLONE_NEWNET,
		Unshareflags: syscall.CLONE_NEWNS, // os/exec then makes its mounts private
		Pdeathsig:    syscall.SIGKILL,
	}
	signal.Ignore(os.Interrupt) // the child has it too, and ends
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("the lab ended with %w", err)
	}
	return nil
}

// runLab runs the chosen cells one after the other.
func runLab(s settings) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	chosen, err := choose(cells(s), s)
	if err != nil {
		return err
	}
	if s.resume {
		if chosen, err = unfinished(chosen, s); err != nil {
			return err
		}
	}
	dir, err := scratch(s.keep)
	if err != nil {
		return err
	}
	if s.keep == "" {
		defer func() { _ = os.RemoveAll(dir) }() // a temporary folder
	}
	l := &lab{settings: s, dir: dir, out: os.Stdout}
	if err := prepareNamespaces(); err != nil {
		return err
	}
	began := time.Now()
	done, err := l.runCells(ctx, chosen)
	failed := writeTable(os.Stdout, done)
	fmt.Printf("%d cells in %v\n", len(done), time.Since(began).Round(time.Second))
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return errors.New("interrupted: with -out, -resume goes on with the cells that did not finish")
	case failed > 0:
		return fmt.Errorf("%d of %d cells failed", failed, len(done))
	}
	return nil
}

// scratch returns the folder for journals.
func scratch(keep string) (string, error) {
	if keep == "" {
		return os.MkdirTemp("", "faults-")
	}
	return keep, os.MkdirAll(keep, 0o755)
}

// choose returns the cells that the flags ask for.
func choose(all []cell, s settings) ([]cell, error) {
	var chosen []cell
	for _, c := range all {
		if s.short && !c.Short || c.Clock && s.clock == "" {
			continue
		}
		if s.run == "" || hasPrefixOf(c.Name, strings.Split(s.run, ",")) {
			chosen = append(chosen, c)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no cell's name begins with one of %q: -list shows all", s.run)
	}
	return chosen, nil
}

func hasPrefixOf(name string, prefixes []string) bool {
	for _, p := range prefixes {
		if p != "" && strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

func list(w io.Writer, s settings) error {
	for _, c := range cells(s) {
		mark := " "
		if c.Short {
			mark = "*"
		}
		if _, err := fmt.Fprintf(w, "%s %-22s %s\n", mark, c.Name, c.Title); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(w, "\n* also in the short form")
	return err
}
