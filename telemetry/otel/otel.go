// Package otel (stable) records calls as spans and metrics of OpenTelemetry, with the names of its
// semantic conventions for RPC (1.43).
//
//	telemetry := otel.New()   // with OpenTelemetry's global providers
//	srv := server.New(server.WithPlugins(telemetry))
//	c, err := client.Dial(target, client.WithPlugins(telemetry))
//
// Each call has a span of kind client and one of kind server, named by the method; _OTHER
// stands for those that do not exist, whose names are not UTF-8, or that are beyond the
// 1024 that a client distinguishes. Within the client's span each attempt has a span, "Attempt "
// and the method, so that retries and parallel attempts are siblings; the server's span is the
// child of its attempt's. An attempt has its number as tandem.attempt and the ID of its instance
// as tandem.instance. An attempt that was cancelled, as another one has won, is no error.
//
// The trace travels in the call's metadata as the
// propagator writes it, by default W3C's traceparent and tracestate. A handler's context has
// the server's span, so spans that it begins, and calls that it makes, are its children. The
// call's Trace has the IDs of the call's span, for access logs, and [LogHandler] adds those of
// the span in its context to each line of a logger. Calls that a plugin refuses before this
// one sees them have no server span. The peer's address is in the attributes
// network.peer.address and, if it has one, network.peer.port.
//
// The histograms rpc.server.call.duration and rpc.client.call.duration have the attributes
// rpc.system.name, rpc.method, rpc.response.status_code, and error.type of calls that
// failed. Their exemplars, which OpenTelemetry's SDK takes of sampled spans, lead to the spans of
// calls.
package otel

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/semconv/v1.43.0/rpcconv"
	"go.opentelemetry.io/otel/trace"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/plugin"
)

const scope = "github.com/tandem-rpc/tandem/telemetry/otel"

// Option changes what [New] returns.
type Option func(*Plugin)

// WithTracerProvider sets the provider that makes spans; OpenTelemetry's global one by default.
func WithTracerProvider(p trace.TracerProvider) Option { return func(o *Plugin) { o.tracers = p } }

// WithMeterProvider sets the provider that keeps metrics; OpenTelemetry's global one by
// default.
func WithMeterProvider(p metric.MeterProvider) Option { return func(o *Plugin) { o.meters = p } }

// WithPropagator sets the propagator that carries traces; W3C's Trace Context by default.
func WithPropagator(p propagation.TextMapPropagator) Option {
	return func(o *Plugin) { o.propagator = p }
}

// WithoutAttempts makes no spans of attempts: the server's span is then the child of the call's.
// That is half as many spans on a client.
func WithoutAttempts() Option { return func(o *Plugin) { o.plain = true } }

// Plugin is a plugin for servers and clients. It is safe for concurrent use.
type Plugin struct {
	tracers    trace.TracerProvider
	meters     metric.MeterProvider
	propagator propagation.TextMapPropagator
	plain      bool // attempts have no spans

	tracer         trace.Tracer
	server, client metric.Float64Histogram
	called         methods
}

// New returns a plugin. Errors of OpenTelemetry go to its error handler.
func New(opts ...Option) *Plugin {
	p := &Plugin{tracers: otel.GetTracerProvider(), meters: otel.GetMeterProvider(), propagator: propagation.TraceContext{}}
	for _, o := range opts {
		o(p)
	}
	p.tracer = p.tracers.Tracer(scope)
	meter := p.meters.Meter(scope)
	served, err := rpcconv.NewServerCallDuration(meter)
	if err != nil {
		otel.Handle(err)
	}
	called, err := rpcconv.NewClientCallDuration(meter)
	if err != nil {
		otel.Handle(err)
	}
	p.server, p.client = served.Inst(), called.Inst()
	return p
}

// ForMethod returns the plugin for a server's calls of a method; _OTHER stands for methods that
// do not exist.
func (p *Plugin) ForMethod(m plugin.Method) any { return &served{p, newMethod(cmp.Or(m.Name, other))} }

// served records a server's calls of one method.
type served struct {
	plugin *Plugin
	method *method
}

// Intercept puts a span round each call.
func (s *served) Intercept(next tandem.Func) tandem.Func {
	return func(ctx context.Context, call *tandem.Call) error {
		ctx = s.plugin.propagator.Extract(ctx, carrier{call})
		ctx, span := s.plugin.tracer.Start(ctx, s.method.name, trace.WithSpanKind(trace.SpanKindServer), //nolint:spancheck // end ends it
			trace.WithAttributes(s.method.attributes...))
		defer end(span)
		place(call, span.SpanContext())
		locate(span, call.Peer)
		err := next(ctx, call)
		finish(span, err, serversFault)
		return err //nolint:spancheck // end ends it
	}
}

// AfterResponse counts each call.
func (s *served) AfterResponse(ctx context.Context, call *tandem.Call, end tandem.Outcome) {
	s.plugin.server.Record(exemplary(ctx, call), end.Took.Seconds(), s.method.of(end.Code()))
}

// Intercept puts a span round each call of a client.
func (p *Plugin) Intercept(next tandem.Func) tandem.Func {
	return func(ctx context.Context, call *tandem.Call) error {
		m := p.called.of(call.Method)
		ctx, span := p.tracer.Start(ctx, m.name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(m.attributes...))
		place(call, span.SpanContext())
		p.propagator.Inject(ctx, carrier{call})
		done := func(err error) {
			locate(span, call.Peer)
			finish(span, err, anyFault)
			span.End()
		}
		err := next(ctx, call)
		if err == nil && call.Kind == tandem.Streaming {
			call.OnEnd(done)
			return nil
		}
		done(err)
		return err
	}
}

// AfterCall counts each call of a client.
func (p *Plugin) AfterCall(ctx context.Context, call *tandem.Call, end tandem.Outcome) {
	p.client.Record(exemplary(ctx, call), end.Took.Seconds(), p.called.of(call.Method).of(end.Code()))
}

// InterceptAttempt puts a span round each attempt of a client.
func (p *Plugin) InterceptAttempt(next tandem.Func) tandem.Func {
	if p.plain {
		return next
	}
	return func(ctx context.Context, call *tandem.Call) error {
		m := p.called.of(call.Method)
		ctx, span := p.tracer.Start(ctx, m.attempt, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(m.attributes...))
		p.propagator.Inject(ctx, carrier{call})
		done := func(err error) {
			locate(span, call.Peer)
			identify(span, call)
			finish(span, err, notCanceled)
			span.End()
		}
		err := next(ctx, call)
		if err == nil && call.Kind == tandem.Streaming {
			call.OnEnd(done)
			return nil
		}
		done(err)
		return err
	}
}

// identify sets which attempt a span is of, and at which instance.
func identify(span trace.Span, call *tandem.Call) {
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(attribute.Int(attemptKey, call.Attempt))
	if call.Peer != nil && call.Peer.Instance != "" {
		span.SetAttributes(attribute.String(instanceKey, valid(call.Peer.Instance)))
	}
}

// exemplary returns a context with the span of a call that is sampled. The contexts of the points
// at which metrics are recorded do not have it: they are those outside the span.
func exemplary(ctx context.Context, call *tandem.Call) context.Context {
	t := &call.Trace
	if !t.Valid() || !t.Sampled() {
		return ctx
	}
	return trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: t.ID, SpanID: t.Span, TraceFlags: trace.TraceFlags(t.Flags),
	}))
}

// place sets the call's Trace to a span.
func place(call *tandem.Call, c trace.SpanContext) {
	if c.IsValid() {
		call.Trace = tandem.Trace{ID: c.TraceID(), Span: c.SpanID(), Flags: byte(c.TraceFlags()), State: c.TraceState().String()}
	}
}

// locate sets the span's attributes of the peer's address: its IP address and port, or the name
// of a socket without a port.
func locate(span trace.Span, peer *tandem.Peer) {
	if !span.IsRecording() || peer == nil || peer.Addr == nil {
		return
	}
	address := peer.Addr.String()
	if at, err := netip.ParseAddrPort(address); err == nil {
		address = at.Addr().Unmap().String()
		span.SetAttributes(attribute.Int("network.peer.port", int(at.Port())))
	}
	span.SetAttributes(attribute.String("network.peer.address", valid(address)))
}

// finish sets the span's attributes of how its call ended.
func finish(span trace.Span, err error, faulty func(tandem.Code) bool) {
	if !span.IsRecording() {
		return
	}
	code := tandem.CodeOf(err)
	span.SetAttributes(attribute.String(statusKey, codeName(code)))
	if err == nil {
		return
	}
	span.SetAttributes(attribute.String(errorKey, codeName(code)))
	if faulty(code) {
		span.SetStatus(codes.Error, valid(tandem.AsError(err).Message))
	}
}

// end ends a span, deferred. A span records the panic in which it is ended, and the panic's
// text may contain bytes of the peer that are not UTF-8: end replaces those before the span
// sees them, and lets the original panic go on.
func end(span trace.Span) {
	v := recover()
	if v == nil {
		span.End()
		return
	}
	defer panic(v)
	defer span.End()
	if text := fmt.Sprint(v); !utf8.ValidString(text) {
		panic(valid(text))
	}
	panic(v)
}

// valid returns a text, which may be the peer's, as valid UTF-8: OTLP refuses a whole batch of
// spans for one string that is not.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// anyFault reports the codes that are errors of a client's span: all.
func anyFault(tandem.Code) bool { return true }

// notCanceled reports the codes that are errors of an attempt's span: all but Canceled, with which
// an attempt ends when another one has won.
func notCanceled(c tandem.Code) bool { return c != tandem.Canceled }

// serversFault reports whether the conventions take a code for an error of the server; others
// are the caller's.
func serversFault(c tandem.Code) bool {
	switch c {
	case tandem.Unknown, tandem.DeadlineExceeded, tandem.Unimplemented, tandem.Internal, tandem.Unavailable, tandem.DataLoss:
		return true
	}
	return false
}

// carrier gives a propagator access to a call's metadata.
type carrier struct{ call *tandem.Call }

// Get returns a value.
func (c carrier) Get(key string) string { return c.call.Metadata.Get(key) }

// Set sets a value.
func (c carrier) Set(key, value string) { c.call.SetMetadata(key, value) }

// Keys returns all keys.
func (c carrier) Keys() (keys []string) {
	for key := range c.call.Metadata {
		keys = append(keys, key)
	}
	return keys
}
