package prom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tandem-rpc/tandem/server"
)

// ServerCollector returns a collector of the state of a server: connections by protocol, memory
// of requests, registrations, and its overload control, which [OverloadCollector] exports alone:
// register one of the two. docs/reference/metrics.md lists the metrics. It is safe for concurrent use.
func ServerCollector(s *server.Server) prometheus.Collector {
	desc := func(what, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName("tandem", "server", what), help, labels, nil)
	}
	return &serverState{
		server:       s,
		overload:     newOverload(s),
		connections:  desc("connections", "Open connections.", "network_protocol_name"),
		greeting:     desc("connections_greeting", "Connections whose protocol is not known yet, or in their handshake."),
		unrecognized: desc("connections_unrecognized_total", "Connections that spoke no protocol, or did not speak in time."),
		draining:     desc("draining", "1 when the server has begun to end."),
		memory:       desc("request_memory_bytes", "Memory that requests hold."),
		refused:      desc("request_memory_refused_total", "Requests that were refused, as there was no memory."),
		listed:       desc("listed", "1 if the registry has taken the instance.", "tandem_instance"),
		failed:       desc("registration_errors_total", "Attempts to register or to update that failed.", "tandem_instance"),
	}
}

type serverState struct {
	server   *server.Server
	overload *overload

	connections, greeting, unrecognized, draining, memory, refused, listed, failed *prometheus.Desc
}

// Describe is for [prometheus.Collector].
func (c *serverState) Describe(to chan<- *prometheus.Desc) {
	c.overload.Describe(to)
	for _, d := range []*prometheus.Desc{
		c.connections, c.greeting, c.unrecognized, c.draining, c.memory, c.refused, c.listed, c.failed,
	} {
		to <- d
	}
}

// Collect is for [prometheus.Collector].
func (c *serverState) Collect(to chan<- prometheus.Metric) {
	s, sink := c.server.State(), sink{to}
	c.overload.collect(sink, &s.Overload)
	if s.Connections["tandem"] == 0 {
		s.Connections["tandem"] = 0 // so that there is always a series
	}
	for protocol, n := range s.Connections {
		sink.gauge(c.connections, float64(n), protocol)
	}
	sink.gauge(c.greeting, float64(s.Greeting))
	sink.count(c.unrecognized, s.Unrecognized)
	sink.flag(c.draining, s.Draining)
	sink.gauge(c.memory, float64(s.Memory))
	sink.count(c.refused, s.MemoryRefused)
	c.collectListings(sink, s.Listings)
}

// collectListings adds up the listings of an instance, which has one for each registry and
// listener: it is listed if all are.
func (c *serverState) collectListings(sink sink, all []server.ListingState) {
	listed, failed := map[string]float64{}, map[string]uint64{}
	for _, l := range all {
		if _, known := listed[l.Instance]; !known {
			listed[l.Instance] = 1
		}
		if !l.Listed {
			listed[l.Instance] = 0
		}
		failed[l.Instance] += l.Failed
	}
	for id, v := range listed {
		sink.gauge(c.listed, v, id)
		sink.count(c.failed, failed[id], id)
	}
}
