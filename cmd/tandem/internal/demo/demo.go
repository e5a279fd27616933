// Package demo runs a cluster of real server processes under load while some of
// them are killed, drained and added, and judges whether a call was lost.
//
// The load is an open loop: call i is due at a fixed time, independent of the calls before it,
// and its latency counts from then. Just before a server is killed or drained, a volley of
// calls with delayed responses makes sure that the fault hits running calls, not an idle
// server.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/plugin/metrics"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/telemetry/prom"
)

// Config says what to run.
type Config struct {
	Duration time.Duration // duration of the load; 3 s to 1 h
	Rate     int           // calls a second, of all callers together; 10 to 50,000
	Servers  int           // servers at the start; 2 to 16
	Failover bool          // calls are retried at another server when an attempt fails
	Seed     uint64        // decides what is called and which servers the faults hit

	Explain  bool            // after each fault, say where a call would go and why
	Registry string          // target of the servers' list; "" is a temporary directory
	Client   []client.Option // options that the client needs for the registry

	// Prometheus returns the command that runs a Prometheus with the arguments, which ends when its
	// standard input does: it observes the servers and the client. nil means none.
	Prometheus func(args ...string) *exec.Cmd

	// Console shows the lists at target and below while the demo runs. It returns what makes clients
	// that it sees, and what ends it. nil means none.
	Console func(ctx context.Context, target string) (dial Dial, end func(), err error)

	// Command returns the command that runs a server process, which ends when
	// its standard input does. See [Role].
	Command func(Role) *exec.Cmd
	Out     io.Writer
	Live    bool // Out is a terminal: redraw a table in place
}

// Dial makes a client, as [client.Dial] does.
type Dial func(target string, opts ...client.Option) (*client.Client, error)

// Role is the configuration of a server process. The process must print
//
//	metrics ADDRESS   before that, where Prometheus finds its metrics, if it has any
//	ready ADDRESS     when it is listed in the registry
//	draining N        on SIGTERM, N being the number of running calls
//	drained N         when it has drained, N being the number of calls that still run
type Role struct {
	Name     string // the ID of its instance
	Registry string // target to register at
	Journal  string // file for the executions of the ledger
	Metrics  bool   // serve metrics
	Admin    bool   // answer the console
}

// Check returns an error for the first setting that is out of range.
func (c *Config) Check() error {
	switch {
	case c.Duration < 3*time.Second || c.Duration > time.Hour:
		return fmt.Errorf("duration %v: want 3s to 1h", c.Duration)
	case c.Rate < 10 || c.Rate > 50_000:
		return fmt.Errorf("rate %d: want 10 to 50000 calls a second", c.Rate)
	case c.Servers < 2 || c.Servers > 16:
		return fmt.Errorf("%d servers: want 2 to 16, as one is killed and one drained", c.Servers)
	}
	return nil
}

// ErrFailed is returned when a check of the demo failed; the output says which.
var ErrFailed = errors.New("the demo failed")

// Run runs the demo and prints its events and figures. It returns [ErrFailed] if a check failed,
// and ctx's error if ctx ended first. When it returns, every process that it started has ended.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.Check(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "tandem-demo-")
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // if it fails, a temporary directory is left
	r := newRun(cfg, dir)
	defer r.cluster.killAll()
	if err := r.observe(ctx, dir); err != nil {
		return err
	}
	defer r.cluster.observer.stop()
	defer func() { r.endConsole() }()
	if err := r.begin(ctx); err != nil {
		return err
	}
	if err := r.play(ctx); err != nil {
		return err
	}
	return r.finish()
}

// run is one run of the demo.
type run struct {
	cfg     Config
	plan    plan
	cluster *cluster
	stats   *stats
	screen  *screen
	client  *client.Client
	load    *load
	faults  []faultResult
	closing time.Duration // how long the client took to close

	dial       Dial
	endConsole func()
}

func newRun(cfg Config, dir string) *run {
	p := newPlan(&cfg)
	s := newStats(p.calls())
	target := cfg.Registry
	if target == "" {
		target = "file://" + filepath.ToSlash(filepath.Join(dir, "registry"))
	}
	return &run{
		cfg: cfg, plan: p, stats: s,
		screen:  &screen{out: cfg.Out, live: cfg.Live},
		cluster: newCluster(dir, target, &cfg),
		dial:    client.Dial, endConsole: func() {},
	}
}

// observe starts Prometheus if it is wanted.
func (r *run) observe(ctx context.Context, dir string) (err error) {
	if r.cfg.Prometheus == nil {
		return nil
	}
	r.cluster.observer, err = startObserver(ctx, r.cfg.Prometheus, dir)
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	fmt.Fprint(r.cfg.Out, r.cluster.observer.guide())
	return nil
}

// startsSoon is how long the servers may take to start before the demo says what it waits for.
const startsSoon = 2 * time.Second

// begin starts the servers, the console if it is wanted, and the client.
func (r *run) begin(ctx context.Context) error {
	late := time.AfterFunc(startsSoon, func() {
		fmt.Fprintf(r.cfg.Out, "waiting until %s lists the servers\n", registry.Redact(r.cluster.registry))
	})
	err := r.cluster.startAll(ctx, r.plan.initial)
	late.Stop()
	if err != nil {
		return err
	}
	if r.cfg.Console != nil {
		dial, end, err := r.cfg.Console(ctx, r.cluster.target)
		if err != nil {
			return fmt.Errorf("demo: the console: %w", err)
		}
		r.dial, r.endConsole = dial, end
	}
	mode := client.Failfast
	if r.cfg.Failover {
		mode = client.Failover
	}
	opts := append(slices.Clone(r.cfg.Client),
		client.WithFailMode(mode),
		client.WithBalancer(balance.RoundRobin()), // so that each server has running calls at a fault
		client.WithAttemptInterceptors(r.stats.intercept))
	m := metrics.New()
	if r.cluster.observer != nil {
		opts = append(opts, client.WithPlugins(m))
	}
	c, err := r.dial(r.cluster.registry, opts...)
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	r.client = c
	if r.cluster.observer != nil {
		if err := r.cluster.observer.expose(ctx, "client", prom.Collector(m), prom.ClientCollector(c)); err != nil {
			return errors.Join(fmt.Errorf("demo: %w", err), c.Close())
		}
	}
	r.load = &load{client: c, plan: r.plan, stats: r.stats, slots: make(chan struct{}, maxInFlight)}
	return nil
}

// play makes the calls and the faults, and shows the figures.
func (r *run) play(ctx context.Context) error {
	defer r.closeClient()
	start := time.Now()
	faults := make(chan struct{})
	go func() {
		defer close(faults)
		r.direct(ctx, start)
	}()
	shown := make(chan struct{})
	watching, stopWatching := context.WithCancel(ctx)
	go func() {
		defer close(shown)
		r.watch(watching, start)
	}()
	r.load.run(ctx, start)
	<-faults
	r.load.wait()
	stopWatching()
	<-shown
	return ctx.Err()
}

// watch shows the figures at intervals until ctx ends.
func (r *run) watch(ctx context.Context, start time.Time) {
	tick := time.NewTicker(slotTime)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		r.stats.rotate()
		if r.screen.live || n%slots == 0 {
			r.screen.show(r.view(time.Since(start)))
		}
	}
}

// closeClient closes the client and measures the time.
func (r *run) closeClient() {
	start := time.Now()
	_ = r.client.Close() // it returns no error
	r.closing = time.Since(start)
}

// finish shuts the servers down gracefully, prints the report, and returns [ErrFailed] if a
// check failed.
func (r *run) finish() error {
	r.screen.done()
	unclean := r.cluster.stopAll()
	audit, err := auditFiles(r.stats.fates, r.cluster.journals())
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	out := result{
		planned: r.plan.calls(), stats: r.stats.totals(), faults: r.faults, audit: audit,
		servers: r.stats.answered(), started: r.cluster.names(), closing: r.closing, unclean: unclean,
	}
	checks := judge(&out)
	report(r.cfg.Out, r.summary(), checks, r.stats.samples())
	if !passed(checks) {
		return ErrFailed
	}
	return nil
}

// errorText returns the text of an error, which may be nil, for the output.
func errorText(err error) string {
	if err == nil {
		return "no error"
	}
	ran := "may have run"
	if !tandem.MayHaveExecuted(err) {
		ran = "did not run"
	}
	return fmt.Sprintf("%v (%s)", err, ran)
}
