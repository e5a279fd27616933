package main

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/tandem-rpc/tandem/cmd/tandem/internal/demo"
)

func TestDemoConfig(t *testing.T) {
	sh := &shell{out: io.Discard, err: io.Discard}
	config := func(args ...string) (demo.Config, error) {
		var f demoFlags
		set := pflag.NewFlagSet("demo", pflag.ContinueOnError)
		f.add(set)
		if err := set.Parse(args); err != nil {
			return demo.Config{}, err
		}
		return f.config(sh, set)
	}
	cfg, err := config()
	if err != nil || cfg.Duration != 20*time.Second || cfg.Rate != 500 || cfg.Servers != 3 || !cfg.Failover || cfg.Live {
		t.Errorf("by default %+v, %v", cfg, err)
	}
	cfg, err = config(strings.Fields("--duration 5s --rate 20 --servers 4 --no-failover --seed 9")...)
	if err != nil || cfg.Duration != 5*time.Second || cfg.Rate != 20 || cfg.Servers != 4 || cfg.Failover || cfg.Seed != 9 {
		t.Errorf("got %+v, %v", cfg, err)
	}
	for _, flag := range []string{"--failover=false", "--no-failover"} {
		if cfg, err := config(flag); err != nil || cfg.Failover {
			t.Errorf("%s: %+v, %v", flag, cfg, err)
		}
	}
}

// Without Prometheus, a demo that is to be observed does not begin, and says how to install it.
func TestDemoNeedsPrometheus(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	code, out, errs := cli(t, "demo", "--observe", "--duration", "3s")
	if code != exitFailed || out != "" || !strings.Contains(errs, "apt-get install prometheus") {
		t.Errorf("exit code %d, %q and %q", code, out, errs)
	}
}

// A demo whose registry does not answer says which it waits for, and then that no server is listed.
func TestDemoWithoutRegistry(t *testing.T) {
	code, out := execute(t, "demo", "--duration", "3s", "--registry", "redis://127.0.0.1:1/shop")
	for _, want := range []string{"waiting until redis://127.0.0.1:1/shop/demo-", "starting s1: it is not listed after 10s: does redis://127.0.0.1:1/shop/demo-"} {
		if code != exitFailed || !strings.Contains(out, want) {
			t.Errorf("exit code %d, no %q in\n%s", code, want, out)
		}
	}
}

func TestIsTerminal(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if isTerminal(f) || isTerminal(io.Discard) {
		t.Error("what is no terminal is taken for one")
	}
}
