package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/admin"
	"github.com/tandem-rpc/tandem/cmd/tandem/internal/contexts"
	"github.com/tandem-rpc/tandem/cmd/tandem/internal/services"
	"github.com/tandem-rpc/tandem/plugin/trace"
	"github.com/tandem-rpc/tandem/protocol/jsonrpc"
	"github.com/tandem-rpc/tandem/protocol/netrpc"
	"github.com/tandem-rpc/tandem/protocol/rpcx"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/server"
)

// serveConfig says how to serve.
type serveConfig struct {
	network, address string
	registrar        registry.Registrar // nil for none
	leave            func() error       // closes the registrar
	tls              *tls.Config        // nil for no TLS
	instance         tandem.Instance    // what the registry is told of the server
	drain            time.Duration
}

// serveFlags are the flags of tandem serve.
type serveFlags struct {
	listen, registry string
	instance         tandem.Instance
	tls              contexts.TLS
	clientCA         string
	drain            time.Duration
}

func newServe(sh *shell) *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve [flags]",
		Short: "serve the demo services until a signal",
		Long: "It answers tandem, net/rpc, JSON-RPC, rpcx, gRPC, gRPC-Web, Connect and HTTP on one port, with a\n" +
			"page at / from which methods are called in a browser, and shows callers on the same machine what it\n" +
			"does: tandem top, tap and console.",
		Example: "tandem serve --listen tcp://127.0.0.1:8972",
		Args:    wantArgs(0, 0),
		RunE: func(*cobra.Command, []string) error {
			cfg, err := f.config()
			if err != nil {
				return err
			}
			signals := make(chan os.Signal, 2) // room for a second signal
			signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
			defer signal.Stop(signals)
			return errors.Join(serve(sh, cfg, signals), cfg.leave())
		},
	}
	f.add(cmd.Flags())
	return cmd
}

func (f *serveFlags) add(set *pflag.FlagSet) {
	set.StringVar(&f.listen, "listen", "tcp://127.0.0.1:8972", "where to listen: tcp://host:port or unix://path")
	set.StringVar(&f.registry, "registry", "", "registry to be listed in: "+strings.Join(registryExamples(), ", "))
	set.StringVar(&f.instance.ID, "id", "", "ID of the instance in the registry; a random one by default")
	set.StringVar(&f.instance.Zone, "zone", "", "its zone")
	set.StringVar(&f.tls.Cert, "tls-cert", "", "use TLS, with the certificate in this `file`")
	set.StringVar(&f.tls.Key, "tls-key", "", "`file` with its key")
	set.StringVar(&f.clientCA, "tls-client-ca", "", "want certificates of clients, of the authorities in this `file`")
	set.DurationVar(&f.drain, "drain", 30*time.Second, "how long calls may go on after the first signal")
}

// config returns the configuration that the flags describe.
func (f *serveFlags) config() (*serveConfig, error) {
	at, err := registry.ParseTarget(f.listen)
	if err != nil {
		return nil, usagef("--listen: %v", err)
	}
	if at.Scheme != "tcp" && at.Scheme != "unix" {
		return nil, usagef("--listen %q: want tcp://host:port or unix://path", f.listen)
	}
	cfg := &serveConfig{network: at.Scheme, address: at.Address(), instance: f.instance, drain: f.drain}
	if cfg.tls, err = f.serverTLS(); err != nil {
		return nil, usagef("TLS: %v", err)
	}
	cfg.registrar, cfg.leave, err = registrarFor(f.registry)
	return cfg, err
}

// serverTLS returns the configuration of a server, nil for no TLS.
func (f *serveFlags) serverTLS() (*tls.Config, error) {
	if f.tls == (contexts.TLS{}) && f.clientCA == "" {
		return nil, nil //nolint:nilnil // nil stands for no TLS
	}
	if f.tls.Cert == "" || f.tls.Key == "" {
		return nil, errors.New("a server needs --tls-cert and --tls-key")
	}
	files := f.tls
	files.CA = f.clientCA
	config, err := files.Config()
	if err != nil || f.clientCA == "" {
		return config, err
	}
	config.ClientCAs, config.RootCAs, config.ClientAuth = config.RootCAs, nil, tls.RequireAndVerifyClientCert
	return config, nil
}

// listedSoon is how long a registry may take to list the server before serve says that it waits.
const listedSoon = 2 * time.Second

// serve serves until the first signal, then drains; a second ends it at once.
func serve(sh *shell, cfg *serveConfig, signals <-chan os.Signal) error {
	var srv *server.Server
	late := time.AfterFunc(listedSoon, func() {
		fmt.Fprintln(sh.err, "not listed yet: the registry has not answered; calls are answered meanwhile")
	})
	defer late.Stop()
	registrar := services.Announce(cfg.registrar, func(in tandem.Instance) {
		late.Stop()
		fmt.Fprintf(sh.out, "serving %s: %s\n", in.Endpoints[0], strings.Join(ownMethods(srv), ", "))
	})
	watching := admin.New()
	opts := []server.Option{
		server.WithLogger(sh.warnings()), // such as why the registry does not list it
		server.WithRegistrar(registrar, cfg.instance), server.WithProtocols(protocols()...), server.WithPlugins(trace.New(), watching),
	}
	if cfg.tls != nil {
		opts = append(opts, server.WithTLS(cfg.tls))
	}
	srv = server.New(opts...)
	_, err := web.RegisterHealth(srv)
	if err := errors.Join(err, services.Register(srv), watching.Register(srv), web.RegisterReflection(srv)); err != nil {
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

// protocols returns the protocols that serve answers besides tandem's own: those of protocol/all,
// with the page from which methods are called.
func protocols() []server.Protocol {
	overHTTP := web.WithHandler("/jsonrpc", jsonrpc.Handler(web.Conn, web.Metadata))
	return []server.Protocol{jsonrpc.New(), netrpc.New(), rpcx.New(), web.New(web.WithPages(), overHTTP)}
}

// ownMethods returns the methods without those that gRPC defines, and the admin API.
func ownMethods(srv *server.Server) []string {
	return slices.DeleteFunc(slices.Clone(srv.Methods()), func(name string) bool {
		return strings.HasPrefix(name, "grpc.") || strings.HasPrefix(name, admin.Service+".")
	})
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
