package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/admin"
	"github.com/tandem-rpc/tandem/cmd/tandem/internal/demo"
	"github.com/tandem-rpc/tandem/cmd/tandem/internal/services"
	"github.com/tandem-rpc/tandem/plugin/metrics"
	"github.com/tandem-rpc/tandem/plugin/trace"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/telemetry/prom"
)

// demoServer is the hidden command of the demo's server processes.
const demoServer = "demo-server"

// demoDrainTime is how long a server of the demo waits for its calls.
const demoDrainTime = 10 * time.Second

// errOrphaned is returned when the demo itself has ended.
var errOrphaned = errors.New("standard input was closed, so the demo has ended")

func newDemoServer(sh *shell) *cobra.Command {
	var role demo.Role
	cmd := &cobra.Command{
		Use:    demoServer + " [flags]",
		Short:  "serve as a process of the demo",
		Hidden: true,
		Args:   wantArgs(0, 0),
		RunE:   func(*cobra.Command, []string) error { return runDemoServer(sh, role) },
	}
	cmd.Flags().StringVar(&role.Name, "name", "", "ID of the instance")
	cmd.Flags().StringVar(&role.Registry, "registry", "", "target of the registry")
	cmd.Flags().StringVar(&role.Journal, "journal", "", "file for the ledger's executions")
	cmd.Flags().BoolVar(&role.Metrics, "metrics", false, "serve metrics for Prometheus")
	cmd.Flags().BoolVar(&role.Admin, "admin", false, "answer the console")
	return cmd
}

// runDemoServer serves until SIGTERM, then drains. It ends at once when its standard input is
// closed, which happens also if the demo is killed. It ignores a terminal's interrupt, which
// the demo handles.
func runDemoServer(sh *shell, role demo.Role) error {
	signal.Ignore(os.Interrupt)
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	defer signal.Stop(terminated)

	ledger, err := services.OpenLedger(role.Journal)
	if err != nil {
		return err
	}
	defer func() { _ = ledger.Close() }() // every line has been written already
	holder := new(services.Holder)
	list, leave, err := registrarFor(role.Registry)
	if err != nil {
		return err
	}
	defer func() { _ = leave() }() // the server has left the list
	m, watching := metrics.New(), newDemoAdmin()
	srv := newDemoServerOf(sh, &role, list, demoPlugins(&role, m, watching), holder)
	if err := errors.Join(services.Register(srv), ledger.Serve(srv)); err != nil {
		return err
	}
	if role.Admin {
		if err := watching.Register(srv); err != nil {
			return err
		}
	}
	defer func() { _ = srv.Close() }() // the process is ending anyway
	if role.Metrics {
		address, end, err := demo.ServeMetrics(context.Background(), prom.Collector(m), prom.ServerCollector(srv))
		if err != nil {
			return err
		}
		defer end()
		fmt.Fprintln(sh.out, "metrics", address)
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve("tcp", "127.0.0.1:0") }()
	select {
	case err := <-ended:
		return err
	case <-orphaned(sh.in):
		return errOrphaned
	case <-terminated:
		return drain(sh, srv, holder)
	}
}

// newDemoServerOf returns the server of a role.
func newDemoServerOf(sh *shell, role *demo.Role, list registry.Registrar, plugins []any, holder *services.Holder) *server.Server {
	registrar := services.Announce(list, func(in tandem.Instance) {
		fmt.Fprintln(sh.out, "ready", in.Endpoints[0].Address)
	})
	return server.New(server.WithInterceptors(holder.Intercept), server.WithRegistrar(registrar, tandem.Instance{ID: role.Name}), server.WithPlugins(plugins...))
}

// demoPlugins returns what a role's server is watched with.
func demoPlugins(role *demo.Role, m *metrics.Metrics, watching *admin.Admin) (plugins []any) {
	if role.Metrics {
		plugins = append(plugins, m)
	}
	if role.Admin {
		plugins = append(plugins, trace.New(), watching)
	}
	return plugins
}

// newDemoAdmin returns the admin API of a process of the demo. All its callers are operators: it listens
// on the loopback interface only, and what it changes ends with the demo.
func newDemoAdmin() *admin.Admin {
	return admin.New(admin.WithAuthorizer(func(context.Context) (admin.Role, error) { return admin.Operator, nil }))
}

// drain shuts a server down gracefully and prints its progress.
func drain(sh *shell, srv *server.Server, holder *services.Holder) error {
	fmt.Fprintln(sh.out, "draining", holder.Running())
	ctx, cancel := context.WithTimeout(context.Background(), demoDrainTime)
	defer cancel()
	if err := srv.Shutdown(ctx); err != nil {
		return err
	}
	fmt.Fprintln(sh.out, "drained", holder.Running())
	return nil
}

// orphaned returns a channel that is closed when in ends.
func orphaned(in io.Reader) <-chan struct{} {
	end := make(chan struct{})
	go func() {
		defer close(end)
		_, _ = io.Copy(io.Discard, in) // only the end matters
	}()
	return end
}
