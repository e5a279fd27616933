// Command till is a process that calls services while it is observed: the tests of the console need
// one whose clients an operator may change. It lists itself in a registry, and calls Hello.Say at
// each target fifty times a second, until it is told to end.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/admin"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/cmd/tandem/internal/services"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/etcd"
	"github.com/tandem-rpc/tandem/registry/file"
	"github.com/tandem-rpc/tandem/server"
)

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: till ID LIST TARGET…")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1], os.Args[2], os.Args[3:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "till:", err)
		os.Exit(1)
	}
}

// operator lets every caller on this machine change breakers; the server listens on loopback only.
func operator(context.Context) (admin.Role, error) { return admin.Operator, nil }

func run(ctx context.Context, id, list string, targets []string) error {
	a := admin.New(admin.WithAuthorizer(operator))
	r, leave, err := registrarOf(list)
	if err != nil {
		return err
	}
	defer func() { _ = leave() }() // the server has left the list
	srv := server.New(server.WithPlugins(a), server.WithRegistrar(r, tandem.Instance{ID: id}))
	if err := errors.Join(a.Register(srv), srv.RegisterFunc("Till.Ping", func() {})); err != nil {
		return err
	}
	var calls sync.WaitGroup
	for _, target := range targets {
		c, err := a.Dial(target, client.WithResolver("etcd", etcd.Resolver()), client.WithResolver("file", file.Resolver()), client.WithCodec(codec.JSON()))
		if err != nil {
			return err
		}
		calls.Go(func() {
			defer func() { _ = c.Close() }() // it ends with the process
			call(ctx, c)
		})
	}
	defer calls.Wait()
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	fmt.Fprintln(os.Stdout, "till runs:", id)
	if err := srv.Serve("tcp", "127.0.0.1:0"); ctx.Err() == nil {
		return err
	}
	return nil
}

// call calls a service until ctx ends. Calls that fail are what the tests look at, too.
func call(ctx context.Context, c *client.Client) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_ = c.Call(ctx, services.Say, &services.Greeting{Name: "till"}, new(services.Greeting))
		case <-ctx.Done():
			return
		}
	}
}

// registrarOf returns the registrar of a list, and what closes it.
func registrarOf(list string) (registry.Registrar, func() error, error) {
	t, err := registry.ParseTarget(list)
	if err != nil {
		return nil, nil, err
	}
	if t.Scheme == "file" {
		return file.New(filepath.FromSlash(t.Address())), func() error { return nil }, nil
	}
	r, err := etcd.New(list)
	if err != nil {
		return nil, nil, err
	}
	return r, r.Close, nil
}
