package trace

import (
	"context"
	"encoding/hex"
	"log/slog"
	"slices"

	"github.com/tandem-rpc/tandem"
)

// LogHandler returns a handler that adds trace_id and span_id to the lines that are logged with a
// context which belongs to a trace: that of [FromContext].
//
//	log := slog.New(trace.LogHandler(slog.NewJSONHandler(os.Stderr, nil)))
//	log.InfoContext(ctx, "sold", "item", id)
//
// Lines without a trace, and those that have a trace_id already, stay as they are. The attributes
// stand outside the groups of the logger. It is safe for concurrent use if next is.
func LogHandler(next slog.Handler) slog.Handler { return LogHandlerOf(next, FromContext) }

// LogHandlerOf is [LogHandler] with another function that finds the trace of a context, which
// must be safe for concurrent use. Package telemetry/otel uses it.
func LogHandlerOf(next slog.Handler, find func(context.Context) tandem.Trace) slog.Handler {
	return &logHandler{root: next, next: next, find: find}
}

// logHandler adds the IDs of traces. Once a group is open, attributes of a line would go into it:
// the IDs are then given to root, and what was added since is added to that again.
type logHandler struct {
	root slog.Handler // the handler before the first group was opened
	next slog.Handler
	find func(context.Context) tandem.Trace
	with []func(slog.Handler) slog.Handler // what leads from root to next; nil without a group
}

// The names of the attributes, which access logs use, too.
const (
	traceKey = "trace_id"
	spanKey  = "span_id"
)

// Enabled is for [slog.Handler].
func (h *logHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// Handle is for [slog.Handler].
func (h *logHandler) Handle(ctx context.Context, r slog.Record) error {
	t := h.find(ctx)
	if !t.Valid() || has(r, traceKey) {
		return h.next.Handle(ctx, r)
	}
	ids := []slog.Attr{slog.String(traceKey, hex.EncodeToString(t.ID[:])), slog.String(spanKey, hex.EncodeToString(t.Span[:]))}
	if h.with == nil {
		r = r.Clone()
		r.AddAttrs(ids...)
		return h.next.Handle(ctx, r)
	}
	to := h.root.WithAttrs(ids)
	for _, add := range h.with {
		to = add(to)
	}
	return to.Handle(ctx, r)
}

// has reports whether a record has an attribute.
func has(r slog.Record, key string) (found bool) {
	r.Attrs(func(a slog.Attr) bool {
		found = a.Key == key
		return !found
	})
	return found
}

// WithAttrs is for [slog.Handler].
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	if h.with == nil {
		next := h.next.WithAttrs(attrs)
		return &logHandler{root: next, next: next, find: h.find}
	}
	return h.then(func(to slog.Handler) slog.Handler { return to.WithAttrs(attrs) })
}

// WithGroup is for [slog.Handler].
func (h *logHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return h.then(func(to slog.Handler) slog.Handler { return to.WithGroup(name) })
}

func (h *logHandler) then(add func(slog.Handler) slog.Handler) slog.Handler {
	return &logHandler{root: h.root, next: add(h.next), find: h.find, with: append(slices.Clip(h.with), add)}
}
