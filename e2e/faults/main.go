// Faults is the fault lab. It runs servers and clients as real processes in network
// namespaces, injects faults into the network or the processes under load, and compares the
// journals of clients and servers. It needs Linux and root. "make faults" runs all cells.
//
//	cd e2e/faults && GOWORK=off go run . -list
//	cd e2e/faults && GOWORK=off go run . -run stop3s,upload -systems tandem,grpc -fast
//	cd e2e/faults && GOWORK=off go run . -run upload-200x200k -cc cubic -pairs 5
//	cd e2e/faults && GOWORK=off go run . -run memory -soak 1h -systems tandem
//
// A cell is an experiment: a load, a fault, and bars, which are its pass criteria. An arm is
// one run of a cell with one system and one congestion control. A control arm, with a similar
// load and without the fault, runs before the arms with the fault. Cells that need few
// resources run in parallel, in lanes, each with its own network. The other cells run alone.
// The exit status is 1 if a bar was missed or an arm was invalid: for example, its fault had
// no effect.
//
// The lab runs in its own namespaces, which the kernel removes when the lab ends. It changes
// nothing in the namespace that it was started in.
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

// The first argument of the processes that the lab starts from its own binary.
const (
	roleServe = "role-serve"
	roleLoad  = "role-load"
	roleCrowd = "role-crowd"
	roleRelay = "role-relay"

	envInside = "FAULTS_INSIDE" // set in the lab's process that has its own namespaces
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
	f.StringVar(&s.systems, "systems", "tandem,grpc,rpcx", "systems to run, separated by commas; a system that a bar compares tandem with always runs")
	f.StringVar(&s.cc, "cc", "cubic,bbr", "TCP congestion controls, separated by commas; cells that do not depend on them use the first")
	f.IntVar(&s.pairs, "pairs", 5, "rounds of the cells that compare systems")
	f.IntVar(&s.lanes, "lanes", 4, "number of cells that run in parallel, 1 to 16; some cells always run alone")
	f.BoolVar(&s.fast, "fast", false, "one round, with the first congestion control only; long cells are shorter")
	f.BoolVar(&s.short, "short", false, "only the cells that -list marks with *, with tandem and the systems that bars compare it with; implies -fast")
	f.BoolVar(&s.list, "list", false, "list the cells and exit")
	f.BoolVar(&s.resume, "resume", false, "skip the cells that have results in -out from this build with these settings; use it after an interruption")
	f.BoolVar(&s.report, "report", false, "run nothing; only write the report again from the results in -out")
	f.DurationVar(&s.soak, "soak", 0, "duration of the cell memory, which makes at most a million calls; 3m by default, 30s with -fast")
	f.StringVar(&s.clock, "clock", "", "path of the binary that clock.sh builds, whose clock can be set; without it the clock cells do not run")
	f.StringVar(&s.spoil, "spoil", "", "test the bars: the servers handle every 50th call wrongly (drop, twice or lose), so cells must fail")
	f.StringVar(&s.keep, "keep", "", "directory in which to keep the journals of every arm; not kept by default")
	f.StringVar(&s.out, "out", "", "directory of the Markdown report and its plots; a run replaces only its own cells; no report by default")
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

// inside runs the lab again in a new network namespace and a new mount namespace. The network
// namespaces that the lab creates there are removed when the lab ends, even if it is killed.
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
		Unshareflags: syscall.CLONE_NEWNS, // with this flag, os/exec makes the mounts private
		Pdeathsig:    syscall.SIGKILL,
	}
	signal.Ignore(os.Interrupt) // the child gets the signal, too, and ends
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("the lab ended with %w", err)
	}
	return nil
}

// runLab runs the chosen cells and prints a table of the results.
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
		defer func() { _ = os.RemoveAll(dir) }() // a temporary directory
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
		return errors.New("interrupted: run it again with -resume (needs -out) to run the cells that did not finish")
	case failed > 0:
		return fmt.Errorf("%d of %d cells failed", failed, len(done))
	}
	return nil
}

// scratch creates the directory for journals and returns it: keep, or a temporary directory if
// keep is empty.
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
	_, err := fmt.Fprintln(w, "\n* runs with -short, too")
	return err
}
