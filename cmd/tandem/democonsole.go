package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/cmd/tandem/internal/demo"
	"github.com/tandem-rpc/tandem/cmd/tandem/internal/services"
	"github.com/tandem-rpc/tandem/console"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// startDemoConsole serves a console for the lists at target and below, and prints its address. Clients of
// its dial are shown as those of the instance "load", which it lists at target.
func startDemoConsole(ctx context.Context, sh *shell, target string) (dial demo.Dial, end func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var closers []func() error
	end = func() {
		cancel()
		for _, c := range closers {
			_ = c() // the demo is over
		}
	}
	defer func() {
		if err != nil {
			end()
		}
	}()
	t, err := registry.ParseTarget(target)
	if err != nil {
		return nil, nil, err
	}
	kind := registryKinds()[t.Scheme]
	resolver, err := kind.resolverOf(t)
	if err != nil {
		return nil, nil, err
	}
	list, leave, err := registrarFor(target + "/load")
	if err != nil {
		return nil, nil, err
	}
	watching := newDemoAdmin()
	listed := make(chan struct{})
	once := sync.OnceFunc(func() { close(listed) }) // a server may be listed again
	announced := services.Announce(list, func(tandem.Instance) { once() })
	srv := server.New(server.WithRegistrar(announced, tandem.Instance{ID: "load"}))
	ended := make(chan error, 1)
	closers = append(closers, func() error { return errors.Join(srv.Close(), <-ended, leave()) })
	if err := watching.Register(srv); err != nil {
		ended <- nil
		return nil, nil, err
	}
	go func() { ended <- srv.Serve("tcp", "127.0.0.1:0") }()
	select {
	case <-listed: // the console asks for lists when it starts, and then every ten seconds
	case err := <-ended:
		ended <- nil
		return nil, nil, err
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}

	c, err := console.New(console.Config{
		Sources: []console.Registry{{Target: target, Resolver: resolver}},
		Writer:  "demo", Log: slog.New(slog.NewTextHandler(sh.err, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	if err != nil {
		return nil, nil, err
	}
	closers = append(closers, c.Close)
	ln, err := transport.TCP().Listen(ctx, "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	served := make(chan error, 1)
	go func() { served <- c.Serve(ctx, ln) }()
	closers = append(closers, func() error { return <-served })
	fmt.Fprintln(sh.out, "the console is at", c.URL(ln.Addr()))
	return watching.Dial, end, nil
}
