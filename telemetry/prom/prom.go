// Package prom (stable) exports the counts of package [metrics] to Prometheus, when Prometheus
// scrapes them: calls are no slower than without it.
//
//	m := metrics.New()
//	srv := server.New(server.WithPlugins(m))
//	prometheus.MustRegister(prom.Collector(m))
//
// The names are those of OpenTelemetry's semantic conventions, as Prometheus writes them:
//
//	rpc_server_call_duration_seconds   a histogram of the calls of a server, by rpc_method
//	rpc_client_call_duration_seconds   the same of a client
//	rpc_server_call_errors_total       calls that failed, by rpc_method and rpc_response_status_code
//	rpc_client_call_errors_total       the same of a client
//	rpc_server_active_calls            calls in flight, by rpc_method
//	rpc_client_active_calls            the same of a client
//
// The histogram's bounds are those of [metrics.Bound].
package prom

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/plugin/metrics"
)

// Collector returns a collector of what m counts. It is safe for concurrent use.
func Collector(m *metrics.Metrics) prometheus.Collector {
	return &collector{m, newSide("server"), newSide("client")}
}

type collector struct {
	metrics        *metrics.Metrics
	server, client side
}

// side holds the descriptions of one side's metrics.
type side struct{ duration, errors, active *prometheus.Desc }

func newSide(name string) side {
	const method = "rpc_method"
	desc := func(what, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName("rpc", name, what), help, labels, prometheus.Labels{"rpc_system_name": "tandem"})
	}
	return side{
		desc("call_duration_seconds", "How long calls took.", method),
		desc("call_errors_total", "Calls that failed.", method, "rpc_response_status_code"),
		desc("active_calls", "Calls in flight.", method),
	}
}

// Describe is for [prometheus.Collector].
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, s := range []side{c.server, c.client} {
		to <- s.duration
		to <- s.errors
		to <- s.active
	}
}

// Collect is for [prometheus.Collector].
func (c *collector) Collect(to chan<- prometheus.Metric) {
	for _, s := range c.metrics.Snapshot() {
		of := c.server
		if s.Side == metrics.Client {
			of = c.client
		}
		to <- prometheus.MustNewConstHistogram(of.duration, s.Calls(), s.Latency.Sum.Seconds(), buckets(&s.Latency), s.Method)
		to <- prometheus.MustNewConstMetric(of.active, prometheus.GaugeValue, float64(s.Running), s.Method)
		for code, n := range s.Errors {
			to <- prometheus.MustNewConstMetric(of.errors, prometheus.CounterValue, float64(n), s.Method, codeName(code))
		}
	}
}

// buckets returns the counts as Prometheus wants them: each bucket includes those before it.
func buckets(h *metrics.Histogram) map[float64]uint64 {
	list, below := make(map[float64]uint64, metrics.Buckets-1), uint64(0)
	for i := range metrics.Buckets - 1 {
		below += h.Counts[i]
		list[metrics.Bound(i).Seconds()] = below
	}
	return list
}

// codeName returns the name of a code as the conventions write gRPC's, whose codes these are.
func codeName(c tandem.Code) string {
	if c == tandem.Canceled {
		return "CANCELLED"
	}
	return strings.ToUpper(strings.ReplaceAll(c.String(), " ", "_"))
}
