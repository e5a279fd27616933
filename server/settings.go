package server

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/settings"
)

// Settings returns the configuration in force: one setting for each option. Its From is "option" if
// the option was given, even with the default value, else "default". [WithoutOverloadControl] is
// shown as WithOverloadControl. It is safe for concurrent use.
func (s *Server) Settings() []tandem.Setting {
	o := &s.opts
	l := &settings.List{Given: o.given}
	l.Add("WithCodecs", settings.Names(o.codecs, tandem.Codec.Name))
	l.Add("WithCompressors", settings.Names(o.compressors, tandem.Compressor.Name))
	l.Add("WithCompressAbove", o.compressAbove)
	l.Add("WithTransport", settings.Names(slices.Collect(maps.Keys(o.transports)), func(name string) string { return name }))
	l.Add("WithProtocols", settings.Names(o.protocols, Protocol.Name))
	l.Add("WithTLS", settings.Switch(o.secured))
	l.Add("WithInterceptors", settings.Functions(o.interceptors))
	l.Add("WithPlugins", settings.Types(o.plugins))
	o.listLimits(l)
	o.listTimes(l)
	l.Add("WithProxies", settings.Names(o.proxies, netip.Prefix.String))
	l.Add("WithLogger", settings.Switch(o.logger != nil))
	l.Add("WithRegistrar", settings.Names(o.memberships, func(m membership) string { return fmt.Sprintf("%T", m.registrar) }))
	l.Add("WithLoadReport", settings.Bound(max(0, o.reportEvery)))
	l.Add("WithClients", settings.Switch(o.clients))
	return l.All
}

// listLimits adds the limits of calls, connections and memory.
func (o *options) listLimits(l *settings.List) {
	concurrency := "none"
	if o.limiter != nil {
		concurrency = fmt.Sprintf("%d calls, %d in the queue", cap(o.limiter.slots), o.limiter.queue)
	}
	l.Add("WithMaxConcurrency", concurrency)
	l.Add("WithOverloadControl", o.overloadText())
	trusted := "verified client certificates"
	if o.given.From("WithTrustedCriticality") != settings.Default {
		trusted = settings.Functions([]func(*tandem.Peer) bool{o.trusts})
	}
	l.Add("WithTrustedCriticality", trusted)
	l.Add("WithRules", o.rulesText())
	l.Add("WithBaggage", o.baggage.text())
	l.Add("WithMaxMessage", o.maxMessage)
	l.Add("WithMemory", o.memory)
	l.Add("WithMaxDecoded", o.maxDecoded)
	l.Add("WithStreamWindow", o.streamWindow)
	l.Add("WithMaxOpenCalls", o.maxOpen)
	l.Add("WithMaxConnections", settings.Bound(o.maxConns))
}

// overloadText says whether overload control is on, and which constants were changed.
func (o *options) overloadText() string {
	changed := settings.Text(o.overload)
	switch {
	case !o.guarded:
		return "off"
	case changed == "none":
		return "on"
	}
	return "on: " + changed
}

// listTimes adds timeouts and ages.
func (o *options) listTimes(l *settings.List) {
	l.Add("WithTimeout", settings.Bound(o.timeout))
	l.Add("WithHandshakeTimeout", o.handshake)
	l.Add("WithStallTimeout", o.stall)
	l.Add("WithSilence", o.silence)
	age := settings.Bound(o.maxAge)
	if o.maxAge > 0 {
		age = fmt.Sprintf("%v, and %v for running calls", o.maxAge, o.ageGrace)
	}
	l.Add("WithMaxConnectionAge", age)
	l.Add("WithLameDuck", settings.Bound(o.lameDuck))
}
