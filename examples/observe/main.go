// Command observe is the program of docs/howto/observe.md: a server and a client with metrics, traces and
// logs that belong together.
package main

import (
	"context"
	"log"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/plugin/accesslog"
	"github.com/tandem-rpc/tandem/plugin/metrics"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/telemetry/otel"
	"github.com/tandem-rpc/tandem/telemetry/prom"
)

func main() { log.Fatal(run("127.0.0.1:8972", "127.0.0.1:9464")) }

func run(address, scraped string) error {
	counts := metrics.New()                                               // one for servers and clients
	spans := otel.New(otel.WithTracerProvider(trace.NewTracerProvider())) // add trace.WithBatcher and an OTLP exporter
	logger := slog.New(otel.LogHandler(slog.NewJSONHandler(os.Stdout, nil)))
	access := accesslog.New(accesslog.ToLogger(logger), accesslog.Errors())

	srv := server.New(server.WithPlugins(spans, counts, access), server.WithLogger(logger))
	err := server.Handle(srv, "Math.Half", func(ctx context.Context, n *int) (*int, error) {
		logger.InfoContext(ctx, "halving", "n", *n) // has trace_id and span_id
		half := *n / 2
		return &half, nil
	})
	if err != nil {
		return err
	}
	c, err := client.Dial("tcp://"+address, client.WithFailMode(client.Failover), client.WithPlugins(spans, counts), client.WithLogger(logger))
	if err != nil {
		return err
	}
	go func() {
		for n := 0; ; n++ {
			_, _ = client.Invoke[int](context.Background(), c, "Math.Half", &n) // the metrics count errors
			time.Sleep(time.Second)
		}
	}()

	all := prometheus.NewRegistry()
	all.MustRegister(prom.Collector(counts), prom.ServerCollector(srv), prom.ClientCollector(c))
	http.Handle("/metrics", promhttp.HandlerFor(all, promhttp.HandlerOpts{EnableOpenMetrics: true})) // with exemplars
	pages := &http.Server{Addr: scraped, ReadHeaderTimeout: time.Second}
	go func() { log.Fatal(pages.ListenAndServe()) }()
	return srv.Serve("tcp", address)
}
