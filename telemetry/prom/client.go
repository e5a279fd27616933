package prom

import (
	"cmp"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tandem-rpc/tandem/client"
)

// ClientCollector returns a collector of what a client knows of its target, with the label target:
// instances by state, connections, circuit breakers, the retry budget, the age of the list, and
// the policy that is in force. docs/reference/metrics.md lists the metrics. Clients of one registry of
// Prometheus must have different targets: give a second client of a target another label with
// [prometheus.WrapRegistererWith]. It is safe for concurrent use.
func ClientCollector(c *client.Client) prometheus.Collector {
	target := prometheus.Labels{"target": c.State().Target} // so that several clients may be registered
	desc := func(what, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName("tandem", "client", what), help, labels, target)
	}
	return &clientState{
		client:      c,
		instances:   desc("instances", "Listed instances, each in one state.", "state"),
		connections: desc("connections", "Open connections that take calls."),
		panicking:   desc("panicking", "1 while ejected instances get calls, as too many are ejected."),
		ejections:   desc("ejections_total", "Times that an instance was ejected."),
		breakers:    desc("method_breakers", "Circuit breakers of a method, one for each instance.", "rpc_method", "state"),
		budget:      desc("retry_budget", "Retries that the budget allows now."),
		refused:     desc("retries_refused_total", "Retries that were not made, as the budget was spent."),
		listed:      desc("list_timestamp_seconds", "When the registry last delivered the list, as Unix time."),
		failing:     desc("registry_failing_seconds", "How long the registry has failed, 0 while it answers."),
		policy:      desc("policy_info", "1, for the version of the policy in force.", "version"),
		rejected:    desc("policy_rejected", "1 if the last policy was not applied."),
	}
}

type clientState struct {
	client *client.Client

	instances, connections, panicking, ejections, breakers *prometheus.Desc
	budget, refused, listed, failing, policy, rejected     *prometheus.Desc
}

// Describe is for [prometheus.Collector].
func (c *clientState) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		c.instances, c.connections, c.panicking, c.ejections, c.breakers, c.budget, c.refused, c.listed, c.failing, c.policy, c.rejected,
	} {
		to <- d
	}
}

// Collect is for [prometheus.Collector].
func (c *clientState) Collect(to chan<- prometheus.Metric) {
	s := c.client.State()
	sink := sink{to}
	c.collectInstances(sink, &s)
	sink.gauge(c.budget, s.RetryBudget)
	sink.count(c.refused, s.RetriesRefused)
	if !s.Listed.IsZero() {
		sink.gauge(c.listed, float64(s.Listed.UnixMilli())/1000) //nolint:mnd // seconds
	}
	failing := time.Duration(0)
	if !s.RegistryFailing.IsZero() {
		failing = time.Since(s.RegistryFailing)
	}
	sink.gauge(c.failing, failing.Seconds())
	sink.gauge(c.policy, 1, cmp.Or(s.Policy.InForce, "none")) // to Prometheus an empty label is no label
	sink.flag(c.rejected, s.Policy.Error != "")
}

func (c *clientState) collectInstances(sink sink, s *client.State) {
	for state, n := range map[string]int{
		"ready": s.Instances.Ready, "ejected": s.Instances.Ejected, "suspect": s.Instances.Suspect,
		"unconnected": s.Instances.Unconnected, "unused": s.Instances.Unused, "withheld": s.Instances.Withheld,
	} {
		sink.gauge(c.instances, float64(n), state)
	}
	sink.gauge(c.connections, float64(s.Connections))
	sink.flag(c.panicking, s.Panicking)
	sink.count(c.ejections, s.Ejections)
	for _, b := range s.Breakers {
		for state, n := range map[string]int{"closed": b.Closed, "half-open": b.HalfOpen, "open": b.Open} {
			sink.gauge(c.breakers, float64(n), b.Method, state)
		}
	}
}

// sink passes metrics to Prometheus.
type sink struct{ to chan<- prometheus.Metric }

func (s sink) gauge(d *prometheus.Desc, v float64, labels ...string) {
	s.to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func (s sink) count(d *prometheus.Desc, v uint64, labels ...string) {
	s.to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
}

func (s sink) flag(d *prometheus.Desc, set bool) {
	v := 0.0
	if set {
		v = 1
	}
	s.gauge(d, v)
}
