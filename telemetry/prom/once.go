package prom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tandem-rpc/tandem/once"
)

// OnceCollector returns a collector of what a plugin of package once has done:
//
//	tandem_once_calls_total          calls with a key, by outcome: ran, repeated, mismatched, undecided
//	tandem_once_running              calls with a key that run
//	tandem_once_store_errors_total   operations of the store that failed
//
// It is safe for concurrent use.
func OnceCollector(p *once.Plugin) prometheus.Collector {
	desc := func(what, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName("tandem", "once", what), help, labels, nil)
	}
	return &onceState{
		p,
		desc("calls_total", "Calls with a key.", "outcome"),
		desc("running", "Calls with a key that run."),
		desc("store_errors_total", "Operations of the store that failed."),
	}
}

type onceState struct {
	plugin                 *once.Plugin
	calls, running, errors *prometheus.Desc
}

// Describe is for [prometheus.Collector].
func (o *onceState) Describe(to chan<- *prometheus.Desc) {
	to <- o.calls
	to <- o.running
	to <- o.errors
}

// Collect is for [prometheus.Collector].
func (o *onceState) Collect(to chan<- prometheus.Metric) {
	s, sink := o.plugin.Stats(), sink{to}
	sink.count(o.calls, s.Ran, "ran")
	sink.count(o.calls, s.Repeated, "repeated")
	sink.count(o.calls, s.Mismatched, "mismatched")
	sink.count(o.calls, s.Undecided, "undecided")
	sink.gauge(o.running, float64(s.Running))
	sink.count(o.errors, s.Failed)
}
