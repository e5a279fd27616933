package client

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/rules"
	"github.com/tandem-rpc/tandem/internal/settings"
	"github.com/tandem-rpc/tandem/resilience"
)

// Settings returns the configuration in force for calls of a method; "" stands for the methods that
// the policy does not name. Options of single calls still override it.
//
// There is one setting for each option, or for each field of an option that takes a struct, such as
// "WithConnections: Silence"; "Idempotent" and "Routes", which have no option, are what a policy says. From is
// "policy VERSION" for what the policy sets, else "option" if it was given, even with the default
// value, else "default". If the registry has overrides of the instances, "overrides" is their
// version, and each instance that gets no calls is shown with the reason; their From is "override".
// It is safe for concurrent use.
func (c *Client) Settings(method string) []tandem.Setting {
	o := &c.opts
	l := &settings.List{Given: o.given}
	c.listRules(l, method)
	o.listAttempts(l)
	o.listConnections(l)
	o.listMessages(l)
	o.listDiscovery(l)
	o.listExtensions(l)
	c.listOverrides(l)
	return l.All
}

// listRules adds what a policy may set.
func (c *Client) listRules(l *settings.List, method string) {
	all := c.rules.Load()
	r := all.Of(method)
	add := func(set rules.Said, name string, value any) {
		if (all.Said | r.Said).Has(set) {
			l.AddFrom(name, value, "policy "+all.Version)
		} else {
			l.Add(name, value)
		}
	}
	add(rules.SaidTimeout, "WithTimeout", settings.Bound(r.Timeout))
	add(rules.SaidAttemptTimeout, "WithAttempts: Timeout", settings.Bound(r.AttemptTimeout))
	add(rules.SaidFailMode, "WithFailMode", rules.FailModeName(r.FailMode))
	add(rules.SaidRetries, "WithRetries", r.Retries)
	add(rules.SaidIdempotent, "Idempotent", r.Idempotent)
	breaker := "off"
	if r.Breaker != nil {
		breaker = settings.Text(resilience.NewBreaker(*r.Breaker).Config())
	}
	add(rules.SaidBreaker, "WithBreaker", breaker)
	add(rules.SaidBalancer, "WithBalancer", all.Balancer.Name())
	add(rules.SaidRoutes, "Routes", all.Routes())
	ejection := "off"
	if e := all.Ejection; e != nil {
		ejection = settings.Text(Ejection{resilience.NewOutliers(e.Outliers).Config(), resilience.NewBreaker(e.Breaker).Config()})
	}
	add(rules.SaidEjection, "WithEjection", ejection)
	add(rules.SaidBudget, "WithAttempts: Budget", fmt.Sprintf("Share %v, PerSecond %d", all.BudgetShare, all.BudgetRate))
}

// listAttempts adds the constants of fail modes, and what calls begin with.
func (o *options) listAttempts(l *settings.List) {
	l.Add("WithAttempts: Fork", o.forks)
	l.Add("WithAttempts: BackupShare", o.backupShare)
	l.Add("WithAttempts: BroadcastShare", o.broadcastShare)
	l.Add("WithAttempts: BroadcastAtOnce", o.broadcastAtOnce)
	l.Add("WithAttempts: Failback", fmt.Sprintf("Size %d, Tries %d, Pause %v", o.failbackQueue, o.failbackTries, o.failbackPause))
	throttle := "off"
	if o.throttle != nil {
		throttle = settings.Text(*o.throttle)
	}
	l.Add("WithThrottle", throttle)
	l.Add("WithWait", settings.Bound(o.wait))
	route := "none"
	if o.route != nil {
		route = o.route.String()
	}
	l.Add("WithRoute", route)
	l.Add("WithBaggage", o.baggage.text())
	l.Add("WithHashKey", settings.Switch(o.hashKey != nil))
}

func (o *options) listConnections(l *settings.List) {
	l.Add("WithConnections: PerInstance", o.connections)
	l.Add("WithConnections: Timeout", o.connectTimeout)
	l.Add("WithConnections: Backoff, MaxBackoff", fmt.Sprintf("%v, %v", o.backoff.First, o.backoff.Most))
	l.Add("WithConnections: HealthCheck", settings.Bound(o.healthCheck))
	l.Add("WithConnections: Silence", o.silence)
	l.Add("WithConnections: StreamWindow", o.streamWindow)
	l.Add("WithTLS", settings.Switch(o.secured))
	l.Add("WithTLSFrom", settings.Switch(o.tlsFrom != nil))
	l.Add("WithTransport", keys(o.transports))
	l.Add("WithProtocols", settings.Names(o.protocols, Protocol.Name))
}

func (o *options) listMessages(l *settings.List) {
	l.Add("WithCodec", o.codec+" of "+settings.Names(o.codecs, tandem.Codec.Name))
	l.Add("WithCompression: Usual", settings.Bound(o.compressor))
	l.Add("WithCompression: Others", settings.Names(o.compressors, tandem.Compressor.Name))
	l.Add("WithCompression: Above", o.compressAbove)
	l.Add("WithMaxMessage", o.maxMessage)
}

func (o *options) listDiscovery(l *settings.List) {
	l.Add("WithResolver", keys(o.resolvers))
	l.Add("WithSnapshots", settings.Bound(o.snapshots))
	self := ""
	if o.self != (rules.Self{}) {
		self = fmt.Sprintf(", calls of %s in zone %s", cmp.Or(o.self.Caller, "no service"), cmp.Or(o.self.Zone, "unknown"))
	}
	fixed, source := settings.Switch(o.fixed != nil), "none"
	if o.fixed != nil {
		fixed += self
	}
	l.Add("WithPolicy", fixed)
	if o.source != nil {
		source = fmt.Sprintf("%T as %s%s", o.source, o.name, self)
	}
	l.Add("WithPolicyFrom", source)
}

func (o *options) listExtensions(l *settings.List) {
	l.Add("WithInterceptors", settings.Functions(o.interceptors))
	l.Add("WithAttemptInterceptors", settings.Functions(o.attemptInterceptors))
	l.Add("WithPlugins", settings.Types(o.plugins))
	l.Add("WithLogger", settings.Switch(o.logger != nil))
	l.Add("WithService", settings.Bound(strings.Join(o.services, ", ")))
	l.Add("WithFunc", settings.Bound(strings.Join(o.funcs, ", ")))
	l.Add("WithPlugins: Serving", settings.Types(o.servingPlugins))
	l.Add("WithID", settings.Bound(o.id))
}

// listOverrides adds what operators have set for the instances in the registry.
func (c *Client) listOverrides(l *settings.List) {
	const override = "override"
	if version := c.overridden.Last().InForce; version != "" {
		l.AddFrom("overrides", version, override)
	}
	withheld := c.pool.Withheld()
	for _, id := range slices.Sorted(maps.Keys(withheld)) {
		l.AddFrom("instance "+id, withheld[id], override)
	}
}

// keys returns the sorted keys of a map as text.
func keys[T any](m map[string]T) string {
	return settings.Names(slices.Collect(maps.Keys(m)), func(name string) string { return name })
}
