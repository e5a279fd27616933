package prom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tandem-rpc/tandem/server"
)

// OverloadCollector returns a collector of the state of a server's overload control:
//
//	prometheus.MustRegister(prom.OverloadCollector(srv))
//
//	tandem_server_overload_guarding         1 while requests of all methods pass the queue
//	tandem_server_overload_slots            handlers that may run, 0 while there is no limit
//	tandem_server_overload_waiting          requests in the queue
//	tandem_server_overload_queued_total     requests that have waited
//	tandem_server_overload_refused_total    requests that were refused, by reason: late, expired, full, streams
//	tandem_server_overload_method_limit     handlers that may run, by rpc_method
//
// [ServerCollector] exports these, too. It is safe for concurrent use.
func OverloadCollector(s *server.Server) prometheus.Collector { return newOverload(s) }

func newOverload(s *server.Server) *overload {
	desc := func(what, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName("tandem", "server_overload", what), help, labels, nil)
	}
	return &overload{
		s,
		desc("guarding", "1 while requests of all methods pass the queue."),
		desc("slots", "Handlers that may run, 0 while there is no limit."),
		desc("waiting", "Requests in the queue."),
		desc("queued_total", "Requests that have waited."),
		desc("refused_total", "Requests that were refused as not executed.", "reason"),
		desc("method_limit", "Handlers of a method that may run.", "rpc_method"),
	}
}

type overload struct {
	server                                           *server.Server
	guarding, slots, waiting, queued, refused, limit *prometheus.Desc
}

// Describe is for [prometheus.Collector].
func (o *overload) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{o.guarding, o.slots, o.waiting, o.queued, o.refused, o.limit} {
		to <- d
	}
}

// Collect is for [prometheus.Collector].
func (o *overload) Collect(to chan<- prometheus.Metric) {
	s := o.server.Overload()
	o.collect(sink{to}, &s)
}

func (o *overload) collect(sink sink, s *server.OverloadState) {
	sink.flag(o.guarding, s.Guarding)
	sink.gauge(o.slots, float64(s.Slots))
	sink.gauge(o.waiting, float64(s.Waiting))
	sink.count(o.queued, s.Queued)
	sink.count(o.refused, s.Refused.Late, "late")
	sink.count(o.refused, s.Refused.Expired, "expired")
	sink.count(o.refused, s.Refused.Full, "full")
	sink.count(o.refused, s.Refused.Streams, "streams")
	for _, m := range s.Methods {
		sink.gauge(o.limit, float64(m.Limit), m.Name)
	}
}
