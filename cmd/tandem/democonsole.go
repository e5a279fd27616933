package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/admin"
	"github.com/tandem-rpc/tandem/cmd/tandem/internal/demo"
	"github.com/tandem-rpc/tandem/cmd/tandem/internal/services"
	"github.com/tandem-rpc/tandem/console"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// startDemoConsole serves a console for the lists at target and below, and prints its address. Clients of
// its dial are shown as those of the instance "load", which it lists below target.
func startDemoConsole(ctx context.Context, sh *shell, target string) (dial demo.Dial, end func(), err error) {
	t, err := registry.ParseTarget(target)
	if err != nil {
		return nil, nil, err
	}
	kind := registryKinds()[t.Scheme]
	resolver, err := kind.resolverOf(t)
	if err != nil {
		return nil, nil, err
	}
	watching := newDemoAdmin()
	leave, err := listLoad(ctx, target+"/load", watching)
	if err != nil {
		return nil, nil, err
	}
	c, err := console.New(console.Config{
		Sources: []console.Registry{{Target: target, Resolver: resolver}}, Writer: "demo",
		Log: slog.New(slog.NewTextHandler(sh.err, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	if err != nil {
		return nil, nil, errors.Join(err, leave())
	}
	ln, err := transport.TCP().Listen(ctx, "127.0.0.1:0")
	if err != nil {
		return nil, nil, errors.Join(err, c.Close(), leave())
	}
	ctx, cancel := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- c.Serve(ctx, ln) }()
	fmt.Fprintln(sh.out, "the console is at", c.URL(ln.Addr()))
	return watching.Dial, func() {
		cancel()
		_ = errors.Join(<-served, c.Close(), leave()) // the demo is over
	}, nil
}

// listLoad lists this process as the instance "load", and waits until it is listed: the console asks for
// lists when it starts, and then every ten seconds. leave ends that.
func listLoad(ctx context.Context, target string, watching *admin.Admin) (leave func() error, err error) {
	list, closeIt, err := registrarFor(target)
	if err != nil {
		return nil, err
	}
	listed := make(chan struct{})
	once := sync.OnceFunc(func() { close(listed) }) // a server may be listed again
	srv := server.New(server.WithRegistrar(services.Announce(list, func(tandem.Instance) { once() }), tandem.Instance{ID: "load"}))
	if err := watching.Register(srv); err != nil {
		return nil, errors.Join(err, srv.Close(), closeIt())
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve("tcp", "127.0.0.1:0") }()
	leave = func() error { return errors.Join(srv.Close(), <-ended, closeIt()) }
	select {
	case <-listed:
		return leave, nil
	case err := <-ended:
		return nil, errors.Join(err, srv.Close(), closeIt())
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), leave())
	}
}
