package otel_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/plugin/accesslog"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/telemetry/otel"
	"github.com/tandem-rpc/tandem/transport"
)

// two serves a method on two instances, a and b, and returns a client of both. f gets how many calls
// have come before.
func two(t *testing.T, plugin any, f func(ctx context.Context, before int64) error, opts ...client.Option) *client.Client {
	t.Helper()
	network, list := transport.NewMemory(), registry.NewMemory()
	var calls atomic.Int64
	for _, id := range []string{"a", "b"} {
		srv := server.New(server.WithPlugins(plugin), server.WithRegistrar(list, tandem.Instance{
			ID: id, Endpoints: []tandem.Endpoint{{Transport: "mem", Address: id}},
		}))
		err := server.Handle(srv, "A.A", func(ctx context.Context, _ *int) (*int, error) { return new(int), f(ctx, calls.Add(1)-1) },
			server.MethodConcurrency(10, 0)) // so no reader runs it
		if err != nil {
			t.Fatal(err)
		}
		ln, err := network.Listen(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() { served <- srv.ServeListener(ln) }()
		t.Cleanup(func() {
			_ = srv.Close()
			<-served
		})
	}
	c, err := client.Dial("memory:///a", append(opts, client.WithResolver("memory", list), client.WithTransport("mem", network), client.WithPlugins(plugin))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	for ready := 0; ready < 2; {
		ready = c.State().Instances.Ready
	}
	return c
}

// tree is the spans of one call.
type tree struct {
	call              tracetest.SpanStub
	attempts, servers []tracetest.SpanStub
}

// treeOf sorts the spans of a call, and fails unless each attempt is a child of the call, and each
// server's span the child of an attempt of its own.
func treeOf(t *testing.T, spans tracetest.SpanStubs) (of tree) {
	t.Helper()
	for _, s := range spans {
		switch {
		case s.SpanKind == trace.SpanKindServer:
			of.servers = append(of.servers, s)
		case strings.HasPrefix(s.Name, "Attempt "):
			of.attempts = append(of.attempts, s)
		default:
			of.call = s
		}
	}
	parents := map[trace.SpanID]bool{}
	for _, a := range of.attempts {
		if a.Parent.SpanID() != of.call.SpanContext.SpanID() || a.Parent.TraceID() != of.call.SpanContext.TraceID() {
			t.Errorf("the attempt %s is not a child of the call", a.Name)
		}
		parents[a.SpanContext.SpanID()] = true
	}
	for _, s := range of.servers {
		if !parents[s.Parent.SpanID()] {
			t.Error("a server's span is not the child of an attempt of its own")
		}
		delete(parents, s.Parent.SpanID())
	}
	return of
}

// value returns an attribute of a span as text.
func value(s *tracetest.SpanStub, key attribute.Key) string {
	set := attribute.NewSet(s.Attributes...)
	v, _ := set.Value(key)
	return v.String()
}

// A retry is a sibling of the attempt that failed, under the span of the call, which succeeds.
func TestRetriesAreSiblings(t *testing.T) {
	s := newSetup()
	c := two(t, s.plugin, func(_ context.Context, before int64) error {
		if before == 0 {
			return tandem.Errorf(tandem.Unavailable, "not now")
		}
		return nil
	}, client.WithFailMode(client.Failover))
	if err := c.Call(t.Context(), "A.A", new(int), nil, client.Idempotent()); err != nil {
		t.Fatal(err)
	}
	of := treeOf(t, s.spans.GetSpans())
	if len(of.attempts) != 2 || len(of.servers) != 2 || of.call.Status.Code != codes.Unset {
		t.Fatalf("%d attempts, %d at servers: %v", len(of.attempts), len(of.servers), of.call.Status)
	}
	first, second := &of.attempts[0], &of.attempts[1]
	if first.Status.Code != codes.Error || second.Status.Code != codes.Unset || value(first, "rpc.response.status_code") != "UNAVAILABLE" {
		t.Errorf("the attempts ended with %v, %v", first.Status, second.Status)
	}
	if value(first, "tandem.attempt") != "0" || value(second, "tandem.attempt") != "1" || value(first, "tandem.instance")+value(second, "tandem.instance") == "aa" {
		t.Errorf("attributes %v and %v", first.Attributes, second.Attributes)
	}
}

// Parallel attempts are siblings, and the one that lost is no error.
func TestParallelAttemptsAreSiblings(t *testing.T) {
	s := newSetup()
	c := two(t, s.plugin, func(ctx context.Context, before int64) error {
		if before == 0 {
			<-ctx.Done() // until the other attempt has won
			return ctx.Err()
		}
		return nil
	}, client.WithFailMode(client.Fork))
	if err := c.Call(t.Context(), "A.A", new(int), nil, client.Idempotent()); err != nil {
		t.Fatal(err)
	}
	of := treeOf(t, s.spans.GetSpans())
	if len(of.attempts) != 2 || value(&of.attempts[0], "tandem.instance") == value(&of.attempts[1], "tandem.instance") {
		t.Fatalf("attempts %+v", of.attempts)
	}
	ended := map[string]codes.Code{}
	for _, a := range of.attempts {
		ended[value(&a, "rpc.response.status_code")] = a.Status.Code
	}
	if len(ended) != 2 || ended["OK"] != codes.Unset || ended["CANCELLED"] != codes.Unset {
		t.Errorf("the attempts ended with %v", ended)
	}
}

// Without spans of attempts, the server's span is the child of the call's.
func TestWithoutAttempts(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	plugin := otel.New(otel.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))), otel.WithoutAttempts())
	c, end := pair(plugin, func(srv *server.Server) error { return srv.RegisterFunc("Math.Half", half) })
	_ = c.Call(t.Context(), "Math.Half", 2, nil)
	end()
	list := spans.GetSpans()
	if len(list) != 2 || list[0].Parent.SpanID() != list[1].SpanContext.SpanID() {
		t.Errorf("got %+v", list)
	}
}

// The exemplars of the histograms lead to the spans of the call, on both sides.
func TestExemplars(t *testing.T) {
	s := newSetup()
	c, end := pair(s.plugin, func(srv *server.Server) error { return srv.RegisterFunc("Math.Half", half) })
	ctx, outer := s.tracer.Tracer("test").Start(t.Context(), "outer")
	_ = c.Call(ctx, "Math.Half", 2, nil)
	outer.End()
	end()
	want := map[string]string{}
	for _, span := range s.spans.GetSpans() {
		if span.Name == "Math.Half" {
			id := span.SpanContext.SpanID()
			want["rpc."+span.SpanKind.String()+".call.duration"] = hex.EncodeToString(id[:])
		}
	}
	var all metricdata.ResourceMetrics
	if err := s.reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	for _, m := range all.ScopeMetrics[0].Metrics {
		for _, p := range m.Data.(metricdata.Histogram[float64]).DataPoints {
			if len(p.Exemplars) != 1 || hex.EncodeToString(p.Exemplars[0].SpanID) != want[m.Name] {
				t.Errorf("%s has exemplars %v, want the span %s", m.Name, p.Exemplars, want[m.Name])
			}
		}
	}
}

// Lines that a handler logs have its span, or one that it has begun; so have those of an access
// log, once.
func TestLogs(t *testing.T) {
	s := newSetup()
	var out bytes.Buffer
	log := slog.New(otel.LogHandler(slog.NewJSONHandler(&out, nil)))
	access := accesslog.New(accesslog.ToLogger(log))
	srv := server.New(server.WithPlugins(s.plugin, access))
	err := srv.RegisterFunc("A.A", func(ctx context.Context) int {
		log.InfoContext(ctx, "in the handler")
		ctx, span := s.tracer.Tracer("test").Start(ctx, "inner")
		log.InfoContext(ctx, "within")
		span.End()
		return 1
	})
	if err != nil {
		t.Fatal(err)
	}
	network := transport.NewMemory()
	ln, err := network.Listen(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	c, err := client.Dial("mem://a", client.WithTransport("mem", network), client.WithPlugins(s.plugin))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Call(t.Context(), "A.A", tandem.Args{}, nil); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	_ = srv.Close()
	<-served
	ids := map[string]trace.SpanContext{}
	for _, span := range s.spans.GetSpans() {
		ids[fmt.Sprint(span.SpanKind, " ", span.Name)] = span.SpanContext
	}
	for line, of := range map[string]string{"in the handler": "server A.A", "within": "internal inner", "call": "server A.A"} {
		want := fmt.Sprintf(`"trace_id":"%s","span_id":"%s"`, ids[of].TraceID(), ids[of].SpanID())
		found := false
		for text := range strings.Lines(out.String()) {
			found = found || strings.Contains(text, `"msg":"`+line+`"`) && strings.Contains(text, want) && strings.Count(text, "trace_id") == 1
		}
		if !found {
			t.Errorf("no line %q with %s in\n%s", line, want, out.String())
		}
	}
	_ = access.Close()
}

func ExampleLogHandler() {
	log := slog.New(otel.LogHandler(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
			return slog.Attr{}
		}
		return a
	}})))
	ctx := trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2},
	}))
	log.InfoContext(ctx, "sold", "item", 7) // a handler's context has the span of its call
	// Output: msg=sold item=7 trace_id=01000000000000000000000000000000 span_id=0200000000000000
}
