//go:build integration

package registries

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/etcd"
	"github.com/tandem-rpc/tandem/registry/zookeeper"
	"github.com/tandem-rpc/tandem/server"
)

// Environment variables that make this test binary a server process.
const (
	envServer = "TANDEM_E2E_SERVER" // ID of the instance
	envTarget = "TANDEM_E2E_TARGET" // target of its registry
)

// ttl is how long an instance stays listed after its process was killed.
const ttl = 4 * time.Second

// work is how long the method takes.
const work = 5 * time.Millisecond

func TestMain(m *testing.M) {
	if id := os.Getenv(envServer); id != "" {
		if err := serve(id, os.Getenv(envTarget)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// serve serves until SIGTERM, then drains.
func serve(id, target string) error {
	list, err := registrar(target)
	if err != nil {
		return err
	}
	defer list.Close()
	srv := server.New(server.WithRegistrar(list, tandem.Instance{ID: id}))
	who := func(context.Context, *string) (*string, error) {
		time.Sleep(work) // without it, latencies would depend on the scheduler, and so would the client's choice of a server
		return &id, nil
	}
	if err := server.Handle(srv, "Test.Who", who); err != nil {
		return err
	}
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve("tcp", "127.0.0.1:0") }()
	select {
	case err := <-ended:
		return err
	case <-terminated:
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return srv.Shutdown(ctx)
}

// closing is a registrar that has to be closed.
type closing interface {
	registry.Registrar
	Close() error
}

func registrar(target string) (closing, error) {
	scheme, _, _ := strings.Cut(target, "://")
	switch scheme {
	case "etcd":
		return etcd.New(target, etcd.WithTTL(ttl))
	case "zookeeper":
		return zookeeper.New(target, zookeeper.WithTTL(ttl))
	}
	return nil, fmt.Errorf("no registry for %q", target)
}

func resolvers() map[string]registry.Resolver {
	return map[string]registry.Resolver{"etcd": etcd.Resolver(), "zookeeper": zookeeper.Resolver()}
}
