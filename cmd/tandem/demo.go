package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tandem-rpc/tandem/cmd/tandem/internal/demo"
	"github.com/tandem-rpc/tandem/registry"
)

// demoFlags are the flags of tandem demo.
type demoFlags struct {
	cfg                                 demo.Config
	noFailover, plain, observe, console bool
	prometheus                          string // path of the program; "" for none
}

// consoleDuration is how long a demo takes by default when people look at it in a browser.
const consoleDuration = 10 * time.Minute

func newDemo(sh *shell) *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:     "demo [flags]",
		Short:   "run a cluster under load while servers are killed, drained and added",
		Example: "tandem demo --duration 10s --servers 5\ntandem demo --console\ntandem demo --observe --duration 10m",
		Args:    wantArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := f.config(sh, cmd.Flags())
			if err != nil {
				return err
			}
			if f.console {
				cfg.Console = func(ctx context.Context, target string) (demo.Dial, func(), error) {
					return startDemoConsole(ctx, sh, target)
				}
			}
			return runDemo(cmd.Context(), &cfg, f.prometheus)
		},
	}
	f.add(cmd.Flags())
	return cmd
}

func (f *demoFlags) add(set *pflag.FlagSet) {
	set.DurationVar(&f.cfg.Duration, "duration", 20*time.Second, "how long calls are made, 3s to 1h; 10m by default with --console")
	set.IntVar(&f.cfg.Rate, "rate", 500, "calls a second, all together")
	set.IntVar(&f.cfg.Servers, "servers", 3, "servers at the start, 2 to 16; one more comes later")
	set.BoolVar(&f.cfg.Failover, "failover", true, "try calls elsewhere when an attempt fails")
	set.BoolVar(&f.noFailover, "no-failover", false, "the same as --failover=false: shows what is lost then")
	set.Uint64Var(&f.cfg.Seed, "seed", 1, "decides what is called and which servers are hit")
	set.BoolVar(&f.cfg.Explain, "explain", false, "after each fault, say where a call would go and why")
	set.StringVar(&f.cfg.Registry, "registry", "", "registry to use instead of a directory: "+strings.Join(registryExamples(), ", "))
	set.BoolVar(&f.observe, "observe", false, "start Prometheus, which must be installed, on the servers and the client")
	set.BoolVar(&f.console, "console", false, "show the cluster in a browser, and let it be changed there: see tandem console")
	set.BoolVar(&f.plain, "plain", false, "print lines, even on a terminal")
}

// config returns the configuration that the flags describe.
func (f *demoFlags) config(sh *shell, set *pflag.FlagSet) (demo.Config, error) {
	cfg := f.cfg
	cfg.Out = sh.out
	if f.noFailover && cfg.Failover && set.Changed("failover") {
		return cfg, usagef("--failover and --no-failover contradict each other")
	}
	cfg.Failover = cfg.Failover && !f.noFailover
	if f.console && !set.Changed("duration") {
		cfg.Duration = consoleDuration
	}
	if err := ownList(&cfg); err != nil {
		return cfg, err
	}
	cfg.Live = !f.plain && isTerminal(sh.out)
	if err := cfg.Check(); err != nil {
		return cfg, usagef("%v", err)
	}
	if f.observe {
		program, err := demo.FindPrometheus()
		if err != nil {
			return cfg, fmt.Errorf("--observe: %w", err)
		}
		f.prometheus = program
	}
	return cfg, nil
}

// runDemo runs the demo. It is observed by the Prometheus of that path, if there is one.
func runDemo(ctx context.Context, cfg *demo.Config, prometheus string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding the command's own binary: %w", err)
	}
	cfg.Command = func(r demo.Role) *exec.Cmd {
		return exec.CommandContext(context.WithoutCancel(ctx), self, demoServer,
			"--name", r.Name, "--registry", r.Registry, "--journal", r.Journal, "--metrics="+strconv.FormatBool(r.Metrics), "--admin="+strconv.FormatBool(r.Admin))
	}
	if prometheus != "" {
		cfg.Prometheus = func(args ...string) *exec.Cmd {
			return exec.CommandContext(context.WithoutCancel(ctx), self, append([]string{demoPrometheus, prometheus}, args...)...)
		}
	}
	mode := "failover"
	if !cfg.Failover {
		mode = "no failover: calls will be lost"
	}
	fmt.Fprintf(cfg.Out, "%d servers, %d calls/s for %v, %s, seed %d\n", cfg.Servers, cfg.Rate, cfg.Duration, mode, cfg.Seed)
	return interrupted(ctx, demo.Run(ctx, *cfg))
}

// ownList appends a random name to the registry's target, so that no other program uses the
// list.
func ownList(cfg *demo.Config) (err error) {
	t := registry.Target{}
	if cfg.Registry != "" {
		if t, err = registry.ParseTarget(cfg.Registry); err != nil {
			return usagef("--registry: %v", err)
		}
	}
	if cfg.Client, err = withRegistries(t); err != nil || cfg.Registry == "" {
		return err
	}
	if _, known := registryKinds()[t.Scheme]; !known {
		return usagef("--registry %q: want one of %s", cfg.Registry, strings.Join(registryExamples(), ", "))
	}
	t.Path = path.Join("/", t.Path, "demo-"+rand.Text()[:8])
	cfg.Registry = t.String()
	return nil
}

// isTerminal reports whether w is a terminal that can move its cursor.
func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
