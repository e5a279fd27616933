// Package plugin has the plugins of rpcx's first version for
// [github.com/tandem-rpc/tandem/compat/rpcx.PluginContainer]: those for the log,
// metrics and limits. Those for registries are in compat/rpcx/registries.
package plugin

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/server"
)

// AuthorizationAndServiceMethod is what a client says of who it is, and what it
// wants to call. A server's authorisation function decides by it.
type AuthorizationAndServiceMethod struct {
	Authorization string // the token
	ServiceMethod string
	Tag           string // what kind of token it is: "Bearer"
}

// LogRegisterPlugin logs every service that is registered. The zero value logs to
// [slog.Default].
type LogRegisterPlugin struct{ Log *slog.Logger }

// ServiceRegistered logs the service.
func (p *LogRegisterPlugin) ServiceRegistered(r *server.Registration) error {
	log := p.Log
	if log == nil {
		log = slog.Default()
	}
	log.Info("service registered", "service", r.Service, "methods", len(r.Methods))
	return nil
}

// Metrics are the calls of one method so far.
type Metrics struct {
	Calls  uint64
	Errors uint64        // how many of them failed
	Took   time.Duration // all together, from their header to their end
}

// MetricsPlugin counts calls and how long they take. The zero value is ready.
type MetricsPlugin struct {
	mu      sync.Mutex
	methods map[string]Metrics
}

// NewMetricsPlugin returns a plugin that has counted nothing.
func NewMetricsPlugin() *MetricsPlugin { return new(MetricsPlugin) }

// Intercept counts a call.
func (p *MetricsPlugin) Intercept(next tandem.Func) tandem.Func {
	return func(ctx context.Context, call *tandem.Call) error {
		began := time.Now()
		err := next(ctx, call)
		took := time.Since(began)
		p.mu.Lock()
		defer p.mu.Unlock()
		m := p.methods[call.Method]
		m.Calls++
		m.Took += took
		if err != nil {
			m.Errors++
		}
		if p.methods == nil {
			p.methods = map[string]Metrics{}
		}
		p.methods[call.Method] = m
		return err
	}
}

// Snapshot returns what was counted so far, by method. Methods are those that are
// registered, and their aliases.
func (p *MetricsPlugin) Snapshot() map[string]Metrics {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.methods)
}

// RateLimitingPlugin limits the requests of a server: a bucket of tokens, of which
// each request takes one. Who finds none is refused, with ResourceExhausted.
type RateLimitingPlugin struct {
	fill     time.Duration
	capacity float64
	now      func() time.Time

	mu     sync.Mutex
	tokens float64
	at     time.Time
}

// NewRateLimitingPlugin returns a plugin whose bucket is full, holds that many
// tokens, and gets one more every fillInterval.
func NewRateLimitingPlugin(fillInterval time.Duration, capacity int64) *RateLimitingPlugin {
	p := &RateLimitingPlugin{fill: max(1, fillInterval), capacity: max(1, float64(capacity)), now: time.Now}
	p.tokens, p.at = p.capacity, p.now()
	return p
}

// BeforeRequestHeader lets a request pass if there is a token for it.
func (p *RateLimitingPlugin) BeforeRequestHeader(_ context.Context, call *tandem.Call) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	p.tokens = min(p.capacity, p.tokens+float64(now.Sub(p.at))/float64(p.fill))
	p.at = now
	if p.tokens < 1 {
		return tandem.Errorf(tandem.ResourceExhausted, "%s: more requests than the limit of one in %v", call.Method, p.fill).
			WithRetryAfter(p.fill)
	}
	p.tokens--
	return nil
}
