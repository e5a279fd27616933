package trace_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/slogtest"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/plugin/trace"
)

var traced = tandem.Trace{ID: [16]byte{0xab}, Span: [8]byte{0xcd}} //nolint:gochecknoglobals // never changed

// The IDs of the trace stand at the top, whatever groups the logger has, and only once.
func TestLogHandler(t *testing.T) {
	const ids = `"trace_id":"ab000000000000000000000000000000","span_id":"cd00000000000000"`
	ctx := trace.NewContext(t.Context(), traced)
	for want, log := range map[string]func(*slog.Logger){
		`{"msg":"a","n":1,` + ids + `}`:                   func(l *slog.Logger) { l.InfoContext(ctx, "a", "n", 1) },
		`{"msg":"b","n":1,"m":2,` + ids + `}`:             func(l *slog.Logger) { l.With("n", 1).InfoContext(ctx, "b", "m", 2) },
		`{"msg":"c",` + ids + `,"g":{"n":1,"h":{"m":2}}}`: func(l *slog.Logger) { l.WithGroup("g").With("n", 1).WithGroup("h").InfoContext(ctx, "c", "m", 2) },
		`{"msg":"d","k":0,` + ids + `,"g":{"n":1}}`:       func(l *slog.Logger) { l.With("k", 0).WithGroup("g").InfoContext(ctx, "d", "n", 1) },
		`{"msg":"e","trace_id":"mine"}`:                   func(l *slog.Logger) { l.InfoContext(ctx, "e", "trace_id", "mine") },
		`{"msg":"f"}`:                                     func(l *slog.Logger) { l.Info("f") },
		`{"msg":"g",` + ids + `}`:                         func(l *slog.Logger) { l.WithGroup("").InfoContext(ctx, "g") },
	} {
		var out bytes.Buffer
		log(slog.New(trace.LogHandler(slog.NewJSONHandler(&out, &slog.HandlerOptions{ReplaceAttr: withoutTime}))))
		if got := strings.TrimSpace(out.String()); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func withoutTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey) {
		return slog.Attr{}
	}
	return a
}

// It is a handler as package slog wants one, with and without a trace.
func TestLogHandlerIsAHandler(t *testing.T) {
	for _, find := range []func(context.Context) tandem.Trace{
		trace.FromContext,
		func(context.Context) tandem.Trace { return traced },
	} {
		var out bytes.Buffer
		results := func() (all []map[string]any) {
			for line := range strings.Lines(out.String()) {
				var m map[string]any
				if err := json.Unmarshal([]byte(line), &m); err != nil {
					t.Fatal(err)
				}
				all = append(all, m)
			}
			return all
		}
		if err := slogtest.TestHandler(trace.LogHandlerOf(slog.NewJSONHandler(&out, nil), find), results); err != nil {
			t.Error(err)
		}
	}
}

func ExampleLogHandler() {
	log := slog.New(trace.LogHandler(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: withoutTime})))
	ctx := trace.NewContext(context.Background(), traced) // a handler's context has the trace of its call
	log.InfoContext(ctx, "sold", "item", 7)
	// Output: msg=sold item=7 trace_id=ab000000000000000000000000000000 span_id=cd00000000000000
}
