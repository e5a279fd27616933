package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/cmd/tandem/internal/services"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/server"
)

// serveConfig is the command line of serve.
type serveConfig struct {
	network, address string
	registrar        registry.Registrar // nil for none
	leave            func() error       // closes the registrar
	drain            time.Duration
}

func runServe(_ context.Context, sh *shell, args []string) error {
	cfg, err := parseServe(sh, args)
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 2) // room for a second signal
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	return errors.Join(serve(sh, cfg, signals), cfg.leave())
}

func parseServe(sh *shell, args []string) (*serveConfig, error) {
	cfg := new(serveConfig)
	set := newFlags("serve")
	listen := set.String("listen", "tcp://127.0.0.1:8972", "where to listen: tcp://host:port or unix://path")
	list := set.String("registry", "", "registry to be listed in: "+strings.Join(registryExamples(), ", "))
	set.DurationVar(&cfg.drain, "drain", 30*time.Second, "how long calls may go on after the first signal")
	if err := parse(set, sh, args); err != nil {
		return nil, err
	}
	if err := noArgs(set); err != nil {
		return nil, err
	}
	at, err := registry.ParseTarget(*listen)
	if err != nil {
		return nil, usagef("-listen: %v", err)
	}
	if at.Scheme != "tcp" && at.Scheme != "unix" {
		return nil, usagef("-listen %q: want tcp://host:port or unix://path", *listen)
	}
	cfg.network, cfg.address = at.Scheme, at.Address()
	cfg.registrar, cfg.leave, err = registrarFor(*list)
	return cfg, err
}

// serve serves until the first signal, then drains; a second ends it at once.
func serve(sh *shell, cfg *serveConfig, signals <-chan os.Signal) error {
	var srv *server.Server
	registrar := services.Announce(cfg.registrar, func(in tandem.Instance) {
		fmt.Fprintf(sh.out, "serving %s: %s\n", in.Endpoints[0], strings.Join(srv.Methods(), ", "))
	})
	srv = server.New(server.WithRegistrar(registrar, tandem.Instance{}))
	if err := services.Register(srv); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(cfg.network, cfg.address) }()
	select {
	case err := <-ended:
		return errors.Join(err, srv.Close())
	case <-signals:
	}
	fmt.Fprintln(sh.out, "draining; a second signal ends it at once")
	return drainUntil(srv, cfg.drain, signals)
}

// drainUntil shuts the server down gracefully. A signal makes it close at once.
func drainUntil(srv *server.Server, patience time.Duration, signals <-chan os.Signal) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- srv.Shutdown(ctx) }()
	select {
	case err := <-done:
		if errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("calls were still running after %v: %w", patience, err)
		}
		return err
	case <-signals:
		cancel()
		<-done //nolint:errcheck // it closes at once now; the interrupt is what to report
		return errInterrupted
	}
}
