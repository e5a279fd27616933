// Package accesslog (stable) writes a line for every call: of a server, or of a client.
//
//	log := accesslog.New(accesslog.To(os.Stdout))
//	defer log.Close()
//	srv := server.New(server.WithPlugins(log))
//
// Lines are JSON, as [slog.JSONHandler] writes it:
//
//	{"time":"2026-11-22T10:11:12.131Z","level":"INFO","msg":"call","side":"server","method":"Arith.Mul",
//	 "peer":"10.1.2.3:4567","protocol":"tandem","code":"ok","took":15125}
//
// took is in nanoseconds. A client's calls with several attempts have their number as attempts.
// Failed calls have their error's message, calls in a trace its ID and span as trace_id and
// span_id, and authenticated callers their identity. Lines are gathered and written at
// most a second later, or when there are 32 KiB of them; lines that a slow file can't take
// are dropped and counted, so that no call ever waits for the log. With [ToLogger] lines
// go to an [*slog.Logger] instead, at once.
package accesslog

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem"
)

// Option changes what [New] returns.
type Option func(*Log)

// To writes lines to w, from one goroutine.
func To(w io.Writer) Option { return func(l *Log) { l.out = &writer{to: w} } }

// ToLogger writes lines by a logger, if their level is enabled. It is slower than [To].
func ToLogger(logger *slog.Logger) Option { return func(l *Log) { l.logger = logger } }

// Errors leaves out calls that succeed.
func Errors() Option { return func(l *Log) { l.errorsOnly = true } }

// Slower leaves out calls that succeed in less time.
func Slower(d time.Duration) Option { return func(l *Log) { l.slower = d } }

// WithFlush sets how long a line may wait to be written with others; a second by
// default.
func WithFlush(d time.Duration) Option {
	return func(l *Log) { l.flush = max(d, time.Millisecond) }
}

// WithIdentity sets how a caller's identity is written. By default strings are written as they
// are, and other values as "known".
func WithIdentity(text func(identity any) string) Option {
	return func(l *Log) { l.identity = text }
}

// Log is a plugin for servers and clients. It is safe for concurrent use.
type Log struct {
	out        *writer
	logger     *slog.Logger
	errorsOnly bool
	slower     time.Duration
	flush      time.Duration
	identity   func(any) string

	clock stamps
	lines sync.Pool // of *line
}

// New returns a log; without [To] and [ToLogger] it writes to slog's default logger. Close must
// be called in the end.
func New(opts ...Option) *Log {
	l := &Log{flush: time.Second, identity: known}
	for _, o := range opts {
		o(l)
	}
	if l.out != nil {
		l.out.start(l.flush)
	}
	return l
}

func known(identity any) string {
	if s, ok := identity.(string); ok {
		return s
	}
	return "known"
}

// Close writes the lines that are waiting and ends the goroutine that New has started. Calls
// may go on; their lines are dropped.
func (l *Log) Close() error {
	if l.out == nil {
		return nil
	}
	return l.out.close()
}

// Dropped returns how many lines were dropped because the writer was too slow, or
// failed.
func (l *Log) Dropped() uint64 {
	if l.out == nil {
		return 0
	}
	return l.out.lost.Load()
}

// KeepsNothing implements plugin.KeepsNothing.
func (*Log) KeepsNothing() {}

// AfterResponse writes the line of a server's call.
func (l *Log) AfterResponse(ctx context.Context, call *tandem.Call, end tandem.Outcome) {
	l.log(ctx, "server", call, &end)
}

// AfterCall writes the line of a client's call.
func (l *Log) AfterCall(ctx context.Context, call *tandem.Call, end tandem.Outcome) {
	l.log(ctx, "client", call, &end)
}

// log writes a line. end does not escape.
func (l *Log) log(ctx context.Context, side string, call *tandem.Call, end *tandem.Outcome) {
	if end.Err == nil && (l.errorsOnly || end.Took < l.slower) {
		return
	}
	if l.out == nil {
		l.toLogger(ctx, side, call, *end)
		return
	}
	b, ok := l.lines.Get().(*line)
	if !ok {
		b = new(line)
	}
	b.write(l, side, call, end)
	l.out.add(b.b)
	if cap(b.b) <= largeLine {
		l.lines.Put(b)
	}
}

// largeLine is the capacity in bytes above which a line's memory is not used again.
const largeLine = 4 << 10

// level returns the level of a line.
func level(code tandem.Code) slog.Level {
	switch code {
	case tandem.OK:
		return slog.LevelInfo
	case tandem.Internal, tandem.DataLoss, tandem.Unknown:
		return slog.LevelError
	}
	return slog.LevelWarn
}

// toLogger writes a line by slog.
func (l *Log) toLogger(ctx context.Context, side string, call *tandem.Call, end tandem.Outcome) {
	to := l.logger
	if to == nil {
		to = slog.Default()
	}
	code := end.Code()
	if !to.Enabled(ctx, level(code)) {
		return
	}
	attrs := make([]slog.Attr, 0, 10)
	attrs = append(attrs, slog.String("side", side), slog.String("method", call.Method))
	if p := call.Peer; p != nil && p.Addr != nil {
		attrs = append(attrs, slog.String("peer", p.Addr.String()), slog.String("protocol", p.Protocol))
	}
	attrs = append(attrs, slog.String("code", code.String()), slog.Duration("took", end.Took))
	if end.Attempts > 1 {
		attrs = append(attrs, slog.Int("attempts", end.Attempts))
	}
	if end.Err != nil {
		attrs = append(attrs, slog.String("error", tandem.AsError(end.Err).Message))
	}
	if call.Identity != nil {
		attrs = append(attrs, slog.String("identity", l.identity(call.Identity)))
	}
	if call.Trace.Valid() {
		attrs = append(attrs, slog.String("trace_id", hexOf(call.Trace.ID[:])), slog.String("span_id", hexOf(call.Trace.Span[:])))
	}
	to.LogAttrs(ctx, level(code), "call", attrs...)
}
