package main

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem/cmd/tandem/internal/demo"
	"github.com/tandem-rpc/tandem/registry"
)

func runDemo(ctx context.Context, sh *shell, args []string) error {
	cfg, err := demoConfig(sh, args)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding the command's own binary: %w", err)
	}
	cfg.Command = func(r demo.Role) *exec.Cmd {
		return exec.CommandContext(context.WithoutCancel(ctx), self, demoServer, "-name", r.Name, "-registry", r.Registry, "-journal", r.Journal)
	}
	mode := "failover"
	if !cfg.Failover {
		mode = "no failover: calls will be lost"
	}
	fmt.Fprintf(cfg.Out, "%d servers, %d calls/s for %v, %s, seed %d\n", cfg.Servers, cfg.Rate, cfg.Duration, mode, cfg.Seed)
	return interrupted(ctx, demo.Run(ctx, cfg))
}

// demoConfig turns the command line into a configuration.
func demoConfig(sh *shell, args []string) (demo.Config, error) {
	cfg := demo.Config{Out: sh.out}
	set := newFlags("demo")
	set.DurationVar(&cfg.Duration, "duration", 20*time.Second, "how long calls are made, 3s to 1h")
	set.IntVar(&cfg.Rate, "rate", 500, "calls a second, all together")
	set.IntVar(&cfg.Servers, "servers", 3, "servers at the start, 2 to 16; one more comes later")
	set.BoolVar(&cfg.Failover, "failover", true, "try calls elsewhere when an attempt fails")
	set.Uint64Var(&cfg.Seed, "seed", 1, "decides what is called and which servers are hit")
	set.BoolVar(&cfg.Explain, "explain", false, "after each fault, say where a call would go and why")
	set.StringVar(&cfg.Registry, "registry", "", "registry to use instead of a directory: "+strings.Join(registryExamples(), ", "))
	noFailover := set.Bool("no-failover", false, "the same as -failover=false: shows what is lost then")
	plain := set.Bool("plain", false, "print lines, even on a terminal")
	if err := parse(set, sh, args); err != nil {
		return cfg, err
	}
	if err := noArgs(set); err != nil {
		return cfg, err
	}
	if *noFailover && cfg.Failover && isSet(set, "failover") {
		return cfg, usagef("-failover and -no-failover contradict each other")
	}
	cfg.Failover = cfg.Failover && !*noFailover
	if err := ownList(&cfg); err != nil {
		return cfg, err
	}
	cfg.Live = !*plain && isTerminal(sh.out)
	if err := cfg.Check(); err != nil {
		return cfg, usagef("%v", err)
	}
	return cfg, nil
}

// ownList appends a random name to the registry's target, so that no other program uses the
// list.
func ownList(cfg *demo.Config) error {
	cfg.Client = withRegistries()
	if cfg.Registry == "" {
		return nil
	}
	t, err := registry.ParseTarget(cfg.Registry)
	if err != nil {
		return usagef("-registry: %v", err)
	}
	if _, known := registryKinds()[t.Scheme]; !known {
		return usagef("-registry %q: want one of %s", cfg.Registry, strings.Join(registryExamples(), ", "))
	}
	t.Path = path.Join("/", t.Path, "demo-"+rand.Text()[:8])
	cfg.Registry = t.String()
	return nil
}

// isSet reports whether a flag was given.
func isSet(set *flag.FlagSet, name string) bool {
	found := false
	set.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
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
