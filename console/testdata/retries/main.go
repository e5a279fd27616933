// Command retries is a small cluster for tests of the console, in registries of files below a
// directory: a front calls one of two backs for each of its own calls, of which one refuses all
// calls, and tries again at the other one. The client of the backs follows the policy at
// /DIRECTORY/policies/back.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/admin"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/plugin/trace"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/file"
	"github.com/tandem-rpc/tandem/server"
)

// pause is the time between two calls of the front: 10 calls a second are all kept as traces.
const pause = 100 * time.Millisecond

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err := run(ctx, filepath.ToSlash(os.Args[1]))
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, dir string) error {
	refuse := func(context.Context) error { return tandem.Errorf(tandem.Unavailable, "no stock here") }
	take := func(context.Context) error { return nil }
	if err := errors.Join(serve(dir, "back", "b1", "Back.Take", refuse, admin.New()), serve(dir, "back", "b2", "Back.Take", take, admin.New())); err != nil {
		return err
	}
	t, err := registry.ParseTarget("file://" + dir + "/back")
	if err != nil {
		return err
	}
	documents, _, err := file.New(dir + "/back").DocumentsOf(t)
	if err != nil {
		return err
	}
	level := new(slog.LevelVar)
	a := admin.New(admin.WithLogLevel(level), admin.WithAuthorizer(func(context.Context) (admin.Role, error) { return admin.Operator, nil }))
	back, err := a.Dial("file://"+dir+"/back",
		client.WithResolver("file", file.Resolver()), client.WithPlugins(trace.New()), client.WithEjection(nil),
		client.WithFailMode(client.Failover), client.WithPolicyFrom(policy.FromRegistry(documents, dir+"/policies/back"), "front"))
	if err != nil {
		return err
	}
	defer back.Close() //nolint:errcheck // the program ends
	order := func(ctx context.Context) error { return back.Call(ctx, "Back.Take", nil, nil, client.Idempotent()) }
	if err := serve(dir, "front", "f1", "Front.Order", order, a); err != nil {
		return err
	}
	front, err := client.Dial("file://"+dir+"/front", client.WithResolver("file", file.Resolver()))
	if err != nil {
		return err
	}
	defer front.Close() //nolint:errcheck // the program ends
	fmt.Fprintln(os.Stdout, "running in", dir)
	for ctx.Err() == nil {
		_ = front.Call(ctx, "Front.Order", nil, nil) // its failures are what the tests count
		time.Sleep(pause)
	}
	return nil
}

// serve starts a server with one method in a list below the directory.
func serve(dir, list, id, method string, do func(context.Context) error, a *admin.Admin) error {
	srv := server.New(server.WithPlugins(trace.New(), a), server.WithRegistrar(file.New(dir+"/"+list), tandem.Instance{ID: id}))
	var lc net.ListenConfig
	ln, err := lc.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err = errors.Join(err, a.Register(srv), srv.RegisterFunc(method, do)); err != nil {
		return err
	}
	go func() { log.Print(srv.ServeListener(ln)) }()
	return nil
}
