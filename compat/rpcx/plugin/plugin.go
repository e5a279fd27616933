// Package plugin has the plugins of rpcx's first version for
// [github.com/tandem-rpc/tandem/compat/rpcx.PluginContainer]: those for the log,
// metrics and limits, which are those of packages reglog, metrics and ratelimit. Those
// for registries are in compat/rpcx/registries.
package plugin

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/tandem-rpc/tandem/plugin/metrics"
	"github.com/tandem-rpc/tandem/plugin/ratelimit"
	"github.com/tandem-rpc/tandem/plugin/reglog"
	"github.com/tandem-rpc/tandem/server"
)

// AuthorizationAndServiceMethod is what a client says of who it is, and what it
// wants to call. A server's authorisation function decides by it.
type AuthorizationAndServiceMethod struct {
	Authorization string // the token
	ServiceMethod string
	Tag           string // what kind of token it is: "Bearer"
}

// LogRegisterPlugin logs every service that is registered, as package reglog does. The
// zero value logs to [slog.Default].
type LogRegisterPlugin struct{ Log *slog.Logger }

// ServiceRegistered logs the service.
func (p *LogRegisterPlugin) ServiceRegistered(r *server.Registration) error {
	return reglog.Logger{Log: cmp.Or(p.Log, slog.Default())}.ServiceRegistered(r)
}

// MetricsPlugin counts the calls of a server, or of a client: package metrics says what,
// and what can be done with it.
type MetricsPlugin = metrics.Metrics

// NewMetricsPlugin returns a plugin that has counted nothing.
func NewMetricsPlugin() *MetricsPlugin { return metrics.New() }

// RateLimitingPlugin limits the calls of a server: who comes too soon is refused, with
// ResourceExhausted, and told when to come again.
type RateLimitingPlugin = ratelimit.Plugin

// NewRateLimitingPlugin returns a plugin with a bucket that is full, holds that many
// tokens, and gets one more every fillInterval. Each call takes one.
func NewRateLimitingPlugin(fillInterval time.Duration, capacity int64) *RateLimitingPlugin {
	rate := float64(time.Second) / float64(max(1, fillInterval))
	return ratelimit.New(ratelimit.PerServer(ratelimit.Limit{Rate: rate, Burst: int(max(1, capacity))}))
}
