package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// demoPrometheus is the hidden command that runs the demo's Prometheus.
const demoPrometheus = "demo-prometheus"

// prometheusEnds is how long Prometheus may take to end by itself.
const prometheusEnds = 5 * time.Second

// newDemoPrometheus returns the command that stands between the demo and Prometheus, and ends
// Prometheus when its standard input is closed: also if the demo is killed.
func newDemoPrometheus(sh *shell) *cobra.Command {
	return &cobra.Command{
		Use:                demoPrometheus + " PROGRAM [ARGUMENT…]",
		Short:              "run Prometheus as a process of the demo",
		Hidden:             true,
		DisableFlagParsing: true, // they are Prometheus's
		Args:               wantArgs(1, maxPrometheusArgs),
		RunE:               func(_ *cobra.Command, args []string) error { return runDemoPrometheus(sh, args) },
	}
}

const maxPrometheusArgs = 64

func runDemoPrometheus(sh *shell, args []string) error {
	signal.Notify(make(chan os.Signal, 1), os.Interrupt, syscall.SIGTERM) // the demo handles them; Prometheus would inherit an Ignore
	cmd := exec.Command(args[0], args[1:]...)                             //nolint:noctx // it ends with the input
	cmd.Stdout, cmd.Stderr = sh.out, sh.err
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("prometheus: %w", err)
	}
	var failed error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		failed = cmd.Wait()
	}()
	select {
	case <-ended:
		return errors.Join(errors.New("prometheus has ended"), failed)
	case <-orphaned(sh.in):
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err == nil { // Windows has no such signal
		select {
		case <-ended:
			return nil
		case <-time.After(prometheusEnds):
		}
	}
	_ = cmd.Process.Kill() // it may have ended
	<-ended
	return nil
}
