// Package plugin (experimental) has the plugins of rpcx's first version for
// [github.com/tandem-rpc/tandem/compat/rpcx.PluginContainer]: for the log, metrics and
// limits. They use packages reglog, metrics and ratelimit. The plugins for registries are in
// compat/rpcx/registries.
package plugin

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/tandem-rpc/tandem/plugin"
	"github.com/tandem-rpc/tandem/plugin/metrics"
	"github.com/tandem-rpc/tandem/plugin/ratelimit"
	"github.com/tandem-rpc/tandem/plugin/reglog"
)

// AuthorizationAndServiceMethod has the credentials of a call and its method, for a server's
// authorization function.
type AuthorizationAndServiceMethod struct {
	Authorization string // the token
	ServiceMethod string
	Tag           string // the kind of token: "Bearer"
}

// LogRegisterPlugin logs every service that is registered, as package reglog does. The
// zero value logs to [slog.Default].
type LogRegisterPlugin struct{ Log *slog.Logger }

// ServiceRegistered logs the service.
func (p *LogRegisterPlugin) ServiceRegistered(r *plugin.Registration) error {
	return reglog.Logger{Log: cmp.Or(p.Log, slog.Default())}.ServiceRegistered(r)
}

// MetricsPlugin collects metrics of a server's or a client's calls; see package metrics.
type MetricsPlugin = metrics.Metrics

// NewMetricsPlugin returns a plugin whose counters are 0.
func NewMetricsPlugin() *MetricsPlugin { return metrics.New() }

// RateLimitingPlugin limits the rate of a server's calls. A call over the limit is refused with
// ResourceExhausted, and the time after which to retry.
type RateLimitingPlugin = ratelimit.Plugin

// NewRateLimitingPlugin returns a plugin with a token bucket of the given capacity. The bucket
// is full at first, and gets one token every fillInterval. Each call takes one.
func NewRateLimitingPlugin(fillInterval time.Duration, capacity int64) *RateLimitingPlugin {
	rate := float64(time.Second) / float64(max(1, fillInterval))
	return ratelimit.New(ratelimit.PerServer(ratelimit.Limit{Rate: rate, Burst: int(max(1, capacity))}))
}
