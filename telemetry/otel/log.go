package otel

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/trace"

	"github.com/tandem-rpc/tandem"
	tracing "github.com/tandem-rpc/tandem/plugin/trace"
)

// LogHandler returns a handler that adds trace_id and span_id to the lines that are logged with a
// context: those of OpenTelemetry's span in it, or else of the call that a handler runs for.
//
//	log := slog.New(otel.LogHandler(slog.NewJSONHandler(os.Stderr, nil)))
//	log.InfoContext(ctx, "sold", "item", id)
//
// Lines without a trace, and those that have a trace_id already, stay as they are. The attributes
// stand outside the groups of the logger. It is safe for concurrent use if next is.
func LogHandler(next slog.Handler) slog.Handler { return tracing.LogHandlerOf(next, fromContext) }

func fromContext(ctx context.Context) tandem.Trace {
	if c := trace.SpanContextFromContext(ctx); c.IsValid() {
		return tandem.Trace{ID: c.TraceID(), Span: c.SpanID(), Flags: byte(c.TraceFlags())}
	}
	return tracing.FromContext(ctx)
}
