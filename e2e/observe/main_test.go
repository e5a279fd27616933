//go:build integration

package observe

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/plugin/metrics"
	"github.com/tandem-rpc/tandem/plugin/trace"
	"github.com/tandem-rpc/tandem/registry/file"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/telemetry/prom"
)

// Environment variables that make this test binary a server process.
const (
	envServer   = "TANDEM_E2E_SERVER"   // ID of the instance
	envRegistry = "TANDEM_E2E_REGISTRY" // directory of the registry
)

func TestMain(m *testing.M) {
	if id := os.Getenv(envServer); id != "" {
		if err := serve(id, os.Getenv(envRegistry)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// The methods of the servers.
const (
	get  = "Shop.Get"  // succeeds
	fail = "Shop.Fail" // fails
	slow = "Shop.Slow" // takes slowness
	hold = "Shop.Hold" // takes slowness; overload control limits it
)

// slowness is more than the alert of slow methods allows.
const slowness = 1500 * time.Millisecond

// serve serves until the process is killed.
func serve(id, registry string) error {
	m := metrics.New()
	srv := server.New(server.WithPlugins(m, trace.New()), server.WithRegistrar(file.New(registry), tandem.Instance{ID: id}))
	if err := register(srv); err != nil {
		return err
	}
	fmt.Println(exposed(prom.Collector(m), prom.ServerCollector(srv)).Listener.Addr()) // the test reads it
	return srv.Serve("tcp", "127.0.0.1:0")
}

func register(srv *server.Server) error {
	type none struct{}
	for name, f := range map[string]func() error{
		get:  func() error { return nil },
		fail: func() error { return tandem.Errorf(tandem.Unavailable, "out of stock") },
		slow: takeLong,
		hold: takeLong,
	} {
		opts := []server.MethodOption{}
		if name == hold || name == slow {
			opts = append(opts, server.MethodConcurrency(1000, 0)) // so that no reader runs it
		}
		if err := server.Handle(srv, name, func(context.Context, *none) (*none, error) { return new(none), f() }, opts...); err != nil {
			return err
		}
	}
	return nil
}

func takeLong() error {
	time.Sleep(slowness) // the latency that the metrics must show
	return nil
}

// exposed serves the metrics of the collectors over HTTP.
func exposed(collectors ...prometheus.Collector) *httptest.Server {
	all := prometheus.NewRegistry()
	all.MustRegister(collectors...)
	return httptest.NewServer(handler(all))
}

func handler(all *prometheus.Registry) http.Handler {
	return promhttp.HandlerFor(all, promhttp.HandlerOpts{EnableOpenMetrics: true})
}
