package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tandem-rpc/tandem/console"
	"github.com/tandem-rpc/tandem/protocol/all"
)

func newConsole(sh *shell) *cobra.Command {
	var listen, as, traceURL string
	var access accessFlags
	cmd := &cobra.Command{
		Use:   "console [flags] TARGET…",
		Short: "show the services of registries in a browser",
		Long: "It serves a page with all lists of instances at the targets and below, and prints its address, which\n" +
			"works once, on this machine. Nothing can be changed unless --as says who does it.",
		Example: "tandem console --as ann etcd://h1:2379/shop",
		Args:    wantArgs(1, -1),
	}
	cmd.ValidArgsFunction = complete(true, false, contextTargets)
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "loopback `address` to listen on; any free port by default")
	cmd.Flags().StringVar(&as, "as", "", "allow changes, and record them as made by `name`")
	cmd.Flags().StringVar(&traceURL, "trace-url", "", "`address` of a trace in Jaeger, Tempo or Grafana, with {trace} for its ID, which traces link to")
	access.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cfg, err := consoleConfig(cmd.Context(), &access, args)
		if err != nil {
			return err
		}
		cfg.Writer, cfg.TraceURL, cfg.Log = as, traceURL, sh.warnings()
		return interrupted(cmd.Context(), serveConsole(cmd.Context(), sh, listen, cfg))
	}
	return cmd
}

// consoleConfig returns the configuration of a console of targets.
func consoleConfig(ctx context.Context, access *accessFlags, targets []string) (cfg console.Config, err error) {
	for _, arg := range targets {
		p, err := access.place(ctx, arg)
		if err != nil {
			return cfg, err
		}
		if len(targets) > 1 && strings.HasPrefix(arg, "@") && (p.tls != nil || p.token != "") {
			return cfg, usagef("%s has TLS or a token, which the servers of the other targets must not get: it needs a console of its own", arg)
		}
		r, t, err := p.list()
		if err != nil {
			return cfg, err
		}
		cfg.Sources = append(cfg.Sources, console.Registry{Target: t.String(), Resolver: r})
		cfg.Dial, cfg.DialFor = append(p.secure(""), p.identify()...), p.secure
	}
	cfg.Protocols = all.Clients()
	return cfg, nil
}

// serveConsole serves the console until ctx ends.
func serveConsole(ctx context.Context, sh *shell, listen string, cfg console.Config) error {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	if at, ok := ln.Addr().(*net.TCPAddr); !ok || !at.IP.IsLoopback() {
		return errors.Join(usagef("--listen %s: that is no loopback address, and others could read along; docs/howto/console.md says how a team uses a console", listen), ln.Close())
	}
	c, err := console.New(cfg)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	fmt.Fprintln(sh.out, "the console is at", c.URL(ln.Addr()))
	err = c.Serve(ctx, ln)
	return errors.Join(err, c.Close())
}
