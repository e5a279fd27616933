package prom

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tandem-rpc/tandem/plugin/authz"
	"github.com/tandem-rpc/tandem/transport/tlsfiles"
)

// CertificateCollector returns a collector of the state of TLS files, with the label certificate, which is name:
// when the certificate and the authorities in use expire, and what prevents that they are replaced. Names
// of one registry of Prometheus must differ. It is safe for concurrent use.
func CertificateCollector(name string, f *tlsfiles.Files) prometheus.Collector {
	desc := func(what, help string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName("tandem", "tls", what), help, nil, prometheus.Labels{"certificate": name})
	}
	return &certificates{
		files:    f,
		expires:  desc("certificate_expiry_timestamp_seconds", "When the certificate in use expires, as Unix time."),
		roots:    desc("roots_expiry_timestamp_seconds", "When the first of the authorities in use expires, as Unix time."),
		reloads:  desc("reloads_total", "Times that certificates were replaced."),
		failures: desc("reload_failures_total", "Changes of the files that could not be used."),
		failing:  desc("reload_failing", "1 while what the files hold can't be used."),
	}
}

type certificates struct {
	files                                      *tlsfiles.Files
	expires, roots, reloads, failures, failing *prometheus.Desc
}

// Describe is for [prometheus.Collector].
func (c *certificates) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.expires, c.roots, c.reloads, c.failures, c.failing} {
		to <- d
	}
}

// Collect is for [prometheus.Collector].
func (c *certificates) Collect(to chan<- prometheus.Metric) {
	s, sink := c.files.Status(), sink{to}
	for d, at := range map[*prometheus.Desc]time.Time{c.expires: s.Expires, c.roots: s.RootsExpire} {
		if !at.IsZero() {
			sink.gauge(d, float64(at.Unix()))
		}
	}
	sink.count(c.reloads, s.Reloads)
	sink.count(c.failures, s.Failures)
	sink.flag(c.failing, s.Error != "")
}

// AuthorizerCollector returns a collector of what an Authorizer decides, and of its rules. It is
// safe for concurrent use.
func AuthorizerCollector(a *authz.Authorizer) prometheus.Collector {
	desc := func(what, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName("tandem", "authz", what), help, labels, nil)
	}
	return &authorizer{
		a,
		desc("decisions_total", "Calls that the rules have decided about.", "decision"),
		desc("rules_info", "1, for the version of the rules in force.", "version"),
		desc("rules_rejected", "1 if the last rules are not in force."),
		desc("rules_failures_total", "Changes of the rules that could not be followed."),
	}
}

type authorizer struct {
	of                                  *authz.Authorizer
	decisions, info, rejected, failures *prometheus.Desc
}

// Describe is for [prometheus.Collector].
func (a *authorizer) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{a.decisions, a.info, a.rejected, a.failures} {
		to <- d
	}
}

// Collect is for [prometheus.Collector].
func (a *authorizer) Collect(to chan<- prometheus.Metric) {
	s, sink := a.of.Status(), sink{to}
	sink.count(a.decisions, s.Allowed, "allowed")
	sink.count(a.decisions, s.Denied, "denied")
	version := s.Version
	if version == "" {
		version = "none" // to Prometheus an empty label is no label
	}
	sink.gauge(a.info, 1, version)
	sink.flag(a.rejected, s.Error != "")
	sink.count(a.failures, s.Failures)
}
