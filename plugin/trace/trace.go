// Package trace (stable) carries W3C's Trace Context (https://www.w3.org/TR/trace-context/) along
// with calls: in their metadata, as traceparent and tracestate, on every protocol that
// has metadata.
//
//	t := trace.New(trace.Sample(0.01), trace.To(func(s *trace.Span) { … }))
//	srv := server.New(server.WithPlugins(t))
//	c, err := client.Dial(target, client.WithPlugins(t))
//
// A client begins a span for each call: in the trace of the call that its context belongs
// to, or of [NewContext], or else in a new trace. A server begins a span in the trace that
// it received. The Trace of a [tandem.Call] is its position in its trace; access logs write it.
// Spans of traces that are sampled go to the function of [To] when they have ended;
// others cost no more than their IDs. Package telemetry/otel does the same with
// OpenTelemetry's own spans.
package trace

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/plugin"
)

// The metadata.
const (
	parentKey = "traceparent"
	stateKey  = "tracestate"
)

// Span is one call seen from one side, ended.
type Span struct {
	tandem.Trace

	Client bool // the span is the caller's
	Method string
	Peer   *tandem.Peer // must not be changed
	Began  time.Time
	Took   time.Duration
	Err    error
}

// Option changes what [New] returns.
type Option func(*Plugin)

// Sample sets the share of new traces that are sampled: 1 is all, the default, and 0 none.
// Traces that came with a call keep their flag.
func Sample(share float64) Option {
	return func(p *Plugin) { p.share = share }
}

// To sets the function that is called with each span of a sampled trace when it has ended:
// concurrently, and the call waits for it. f must not keep the Span.
func To(f func(s *Span)) Option { return func(p *Plugin) { p.record = f } }

// Plugin traces the calls of servers and clients. It is safe for concurrent use.
type Plugin struct {
	share  float64
	record func(*Span) // may be nil
}

// New returns a plugin.
func New(opts ...Option) *Plugin {
	p := &Plugin{share: 1}
	for _, o := range opts {
		o(p)
	}
	return p
}

// KeepsNothing implements [plugin.KeepsNothing].
func (*Plugin) KeepsNothing() {}

var _ plugin.BeforeRequestHeader = (*Plugin)(nil)

// BeforeRequestHeader begins a server's span, in the trace that the call came with.
func (p *Plugin) BeforeRequestHeader(_ context.Context, call *tandem.Call) error {
	var t tandem.Trace
	if text := call.Metadata[parentKey]; len(text) == 1 && Parse(text[0], &t) {
		if state := call.Metadata[stateKey]; len(state) == 1 && len(state[0]) <= maxState {
			t.State = state[0]
		}
		t.Parent = t.Span
	} else {
		p.begin(&t)
	}
	setSpan(&t)
	call.Trace = t
	return nil
}

// AfterResponse ends a server's span.
func (p *Plugin) AfterResponse(_ context.Context, call *tandem.Call, end tandem.Outcome) {
	if p.record != nil && call.Trace.Sampled() && call.Trace.Valid() {
		p.end(call, end, false)
	}
}

// BeforeCall begins a client's span.
func (p *Plugin) BeforeCall(ctx context.Context, call *tandem.Call) error {
	t := &call.Trace
	if from := FromContext(ctx); from.Valid() {
		*t = from
		t.Parent = from.Span
	} else {
		p.begin(t)
	}
	setSpan(t)
	call.SetMetadata(parentKey, String(t))
	if t.State != "" {
		call.SetMetadata(stateKey, t.State)
	}
	return nil
}

// AfterCall ends a client's span.
func (p *Plugin) AfterCall(_ context.Context, call *tandem.Call, end tandem.Outcome) {
	if p.record != nil && call.Trace.Sampled() && call.Trace.Valid() {
		p.end(call, end, true)
	}
}

func (p *Plugin) end(call *tandem.Call, end tandem.Outcome, client bool) {
	p.record(&Span{
		Trace: call.Trace, Client: client, Method: call.Method, Peer: call.Peer, Began: end.Began, Took: end.Took, Err: end.Err,
	})
}

// begin begins a trace. IDs only tell traces apart and are no secrets, so they need no
// cryptographic random numbers.
func (p *Plugin) begin(t *tandem.Trace) {
	for t.ID == [16]byte{} {
		binary.LittleEndian.PutUint64(t.ID[:8], rand.Uint64())
		binary.LittleEndian.PutUint64(t.ID[8:], rand.Uint64())
	}
	if p.share >= 1 || p.share > 0 && rand.Float64() < p.share {
		t.Flags = tandem.TraceSampled
	}
}

func setSpan(t *tandem.Trace) {
	t.Span = [8]byte{}
	for t.Span == [8]byte{} {
		binary.LittleEndian.PutUint64(t.Span[:], rand.Uint64())
	}
}

type contextKey struct{}

// NewContext returns a context whose calls belong to the trace: for one that began elsewhere,
// such as in an HTTP request.
func NewContext(ctx context.Context, t tandem.Trace) context.Context {
	return context.WithValue(ctx, contextKey{}, &t)
}

// FromContext returns the trace that calls with this context belong to: that of
// [NewContext], or of the call that a handler runs for; the zero Trace if there is none.
func FromContext(ctx context.Context) tandem.Trace {
	if t, ok := ctx.Value(contextKey{}).(*tandem.Trace); ok {
		return *t
	}
	if call := tandem.FromContext(ctx); call != nil {
		return call.Trace
	}
	return tandem.Trace{}
}
