package load

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"time"

	"github.com/tandem-rpc/tandem/bench/message"
)

// Main is the main function of a peer: it runs the server or the client of sys, as the
// command line says, until the harness stops it or is gone.
func Main(sys System) {
	// An interrupt from the terminal reaches all processes. The harness ends its peers itself,
	// after it has asked them for their usage.
	signal.Ignore(os.Interrupt)
	if err := run(sys, os.Args[1:], newControl(os.Stdin, os.Stdout)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(sys System, args []string, ctl *control) error {
	if len(args) == 0 {
		return errors.New("load: say server or client; package harness shows how both are used")
	}
	err := Named().check(sys.Options)
	if err != nil {
		_ = ctl.report(Report{Event: EventFailed, Error: err.Error()})
		return err
	}
	for name, bytes := range sizes {
		if Named().Has(name) {
			message.SetSize(bytes)
		}
	}
	switch args[0] {
	case "server":
		err = runServer(sys, args[1:], ctl)
	case "client":
		err = runClient(sys, args[1:], ctl)
	default:
		err = fmt.Errorf("load: subcommand %q; there are server and client", args[0])
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		_ = ctl.report(Report{Event: EventFailed, Error: err.Error()}) // the exit code reports it too
	}
	return err
}

// runServer serves until standard input ends.
func runServer(sys System, args []string, ctl *control) error {
	flags := flag.NewFlagSet("server", flag.ContinueOnError)
	addr := flags.String("listen", "127.0.0.1:0", "address to listen on")
	work := flags.Duration("work", 0, "time for which a handler keeps its processor busy")
	if err := flags.Parse(args); err != nil {
		return err
	}
	message.SetWork(*work)
	ln, err := net.Listen("tcp", *addr)
	if err != nil {
		return fmt.Errorf("load: %w", err)
	}
	failed := make(chan error, 1)
	go func() { failed <- sys.Serve(ln) }()
	told := make(chan error, 1)
	go func() { told <- reportMarks(ctl, ln.Addr().String()) }()
	select {
	case err := <-failed:
		return fmt.Errorf("load: the server ended by itself: %w", err)
	case err := <-told:
		_ = ln.Close()
		return err
	}
}

// reportMarks reports the address, and then the usage each time the harness asks.
func reportMarks(ctl *control, addr string) error {
	epoch := time.Now()
	if err := ctl.report(Report{Event: EventReady, Addr: addr}); err != nil {
		return err
	}
	for {
		if err := ctl.expect(OpMark); err != nil {
			return err
		}
		usage, err := readUsage(epoch)
		if err != nil {
			return err
		}
		if err := ctl.report(Report{Event: EventUsage, Usage: &usage}); err != nil {
			return err
		}
	}
}

// runClient warms up, measures between start and its own report, and continues to call
// until stop, so that the server can be marked under the same load.
func runClient(sys System, args []string, ctl *control) error {
	plan, err := parsePlan(args)
	if err != nil {
		return err
	}
	c, err := startClient(sys, plan)
	if errors.Is(err, errUnsupported) {
		return ctl.report(Report{Event: EventUnsupported, Error: err.Error()})
	}
	if err != nil {
		return err
	}
	usage, err := c.follow(ctl)
	c.stop()
	if err != nil {
		return err
	}
	result := c.rec.result()
	result.Usage = usage
	return ctl.report(Report{Event: EventResult, Result: &result})
}

// follow executes the harness's commands until stop.
func (c *client) follow(ctl *control) (Usage, error) {
	time.Sleep(c.plan.Warmup)
	if err := ctl.report(Report{Event: EventWarm}); err != nil {
		return Usage{}, err
	}
	if err := ctl.expect(OpStart); err != nil {
		return Usage{}, err
	}
	usage, err := c.measure()
	if err != nil {
		return Usage{}, err
	}
	if err := ctl.report(Report{Event: EventMeasured}); err != nil {
		return Usage{}, err
	}
	return usage, ctl.expect(OpStop)
}

// Args returns the command line of a client that follows the plan.
func (p Plan) Args() []string {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // numbers and strings can always be encoded
	}
	return []string{"client", string(text)}
}

func parsePlan(args []string) (Plan, error) {
	var p Plan
	if len(args) != 1 {
		return p, errors.New("load: a client takes a plan, as JSON")
	}
	if err := json.Unmarshal([]byte(args[0]), &p); err != nil {
		return p, fmt.Errorf("load: a client's plan: %w", err)
	}
	if p.Callers < 1 || p.Conns < 0 || len(p.Addrs) == 0 {
		return p, fmt.Errorf("load: %d callers on %d connections to %d servers: there must be a caller and a server, and no fewer than 0 connections",
			p.Callers, p.Conns, len(p.Addrs))
	}
	if n := len(p.Addrs); p.connections() < n {
		return p, fmt.Errorf("load: %d connections to %d servers: each server needs one", p.connections(), n)
	}
	return p, nil
}
