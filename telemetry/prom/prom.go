// Package prom (stable) exports the counts of package [metrics] to Prometheus, when Prometheus
// scrapes them: calls are no slower than without it.
//
//	m := metrics.New()
//	srv := server.New(server.WithPlugins(m))
//	c, err := client.Dial(target, client.WithPlugins(m))
//	prometheus.MustRegister(prom.Collector(m), prom.ServerCollector(srv), prom.ClientCollector(c))
//
// [ServerCollector] and [ClientCollector] export the state of a server and of a client. The names are those of OpenTelemetry's semantic conventions, as Prometheus writes them:
//
//	rpc_server_call_duration_seconds   a histogram of the calls of a server, by rpc_method
//	rpc_client_call_duration_seconds   the same of a client
//	rpc_server_call_errors_total       calls that failed, by rpc_method and rpc_response_status_code
//	rpc_client_call_errors_total       the same of a client
//	rpc_server_active_calls            calls in flight, by rpc_method
//	rpc_client_active_calls            the same of a client
//	rpc_client_call_attempts_total     attempts that a client made at calls, by rpc_method
//
// The histogram's bounds are those of [metrics.Bound]. Calls of sampled traces are its exemplars,
// with trace_id and span_id: Prometheus sees them if the handler has EnableOpenMetrics and it runs
// with --enable-feature=exemplar-storage. docs/reference/metrics.md lists all metrics with their labels.
package prom

import (
	"encoding/hex"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/plugin/metrics"
)

// Collector returns a collector of what m counts. It is safe for concurrent use.
func Collector(m *metrics.Metrics) prometheus.Collector {
	return &collector{m, newSide("server"), newSide("client"), desc("client", "call_attempts_total", "Attempts at calls that have ended.", methodLabel)}
}

type collector struct {
	metrics        *metrics.Metrics
	server, client side
	attempts       *prometheus.Desc
}

// side holds the descriptions of one side's metrics.
type side struct{ duration, errors, active *prometheus.Desc }

const methodLabel = "rpc_method"

func desc(side, what, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName("rpc", side, what), help, labels, prometheus.Labels{"rpc_system_name": "tandem"})
}

func newSide(name string) side {
	return side{
		desc(name, "call_duration_seconds", "How long calls took.", methodLabel),
		desc(name, "call_errors_total", "Calls that failed.", methodLabel, "rpc_response_status_code"),
		desc(name, "active_calls", "Calls in flight.", methodLabel),
	}
}

// Describe is for [prometheus.Collector].
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, s := range []side{c.server, c.client} {
		to <- s.duration
		to <- s.errors
		to <- s.active
	}
	to <- c.attempts
}

// Collect is for [prometheus.Collector].
func (c *collector) Collect(to chan<- prometheus.Metric) {
	for _, s := range c.metrics.Snapshot() {
		of := c.server
		if s.Side == metrics.Client {
			of = c.client
			to <- prometheus.MustNewConstMetric(c.attempts, prometheus.CounterValue, float64(s.Attempts), s.Method)
		}
		to <- withExemplars(prometheus.MustNewConstHistogram(of.duration, s.Calls(), s.Latency.Sum.Seconds(), buckets(&s.Latency), s.Method), s.Exemplars)
		to <- prometheus.MustNewConstMetric(of.active, prometheus.GaugeValue, float64(s.Running), s.Method)
		for code, n := range s.Errors {
			to <- prometheus.MustNewConstMetric(of.errors, prometheus.CounterValue, float64(n), s.Method, codeName(code))
		}
	}
}

// withExemplars adds calls of sampled traces to a histogram.
func withExemplars(histogram prometheus.Metric, calls []metrics.Exemplar) prometheus.Metric {
	if len(calls) == 0 {
		return histogram
	}
	list := make([]prometheus.Exemplar, 0, len(calls))
	for _, c := range calls {
		list = append(list, prometheus.Exemplar{
			Value: c.Took.Seconds(), Timestamp: c.At,
			Labels: prometheus.Labels{"trace_id": hex.EncodeToString(c.ID[:]), "span_id": hex.EncodeToString(c.Span[:])},
		})
	}
	return prometheus.MustNewMetricWithExemplars(histogram, list...)
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
