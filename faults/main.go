// Faults is the fault lab: it runs servers and clients as real processes in network
// namespaces, breaks the network or the processes under load, and compares what both
// sides wrote down. Linux only, as root; "make faults" runs all of it.
//
//	cd faults && GOWORK=off go run . -list
//	cd faults && GOWORK=off go run . -run stop3s,upload -systems tandem,grpc -fast
//	cd faults && GOWORK=off go run . -run upload-200x200k -cc cubic -pairs 5
//
// A cell is a load, a fault and bars. Each cell runs once for each system and
// congestion control, after a control arm that has the same load without the fault.
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
	"strings"
	"syscall"
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
	fast    bool
	short   bool
	list    bool
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
		return list(os.Stdout)
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
	f.BoolVar(&s.fast, "fast", false, "one round, with the first congestion control only")
	f.BoolVar(&s.short, "short", false, "only the cells of the short form, with the systems that their bars need, and as -fast")
	f.BoolVar(&s.list, "list", false, "list the cells and stop")
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
	chosen, err := choose(cells(), s)
	if err != nil {
		return err
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
	var done []outcome
	for _, c := range chosen {
		if ctx.Err() != nil {
			break
		}
		done = append(done, l.runCell(ctx, c))
	}
	failed := writeTable(os.Stdout, done)
	if s.out != "" {
		if err := writeReport(s.out, done, s); err != nil {
			return err
		}
	}
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted")
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
		if s.short && !c.Short {
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

func list(w io.Writer) error {
	for _, c := range cells() {
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
