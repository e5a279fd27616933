package otel_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/plugin"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/telemetry/otel"
	"github.com/tandem-rpc/tandem/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// setup is a plugin with OpenTelemetry's own SDK, whose spans and metrics the tests read.
type setup struct {
	spans  *tracetest.InMemoryExporter
	tracer *sdktrace.TracerProvider
	reader *metric.ManualReader
	plugin *otel.Plugin
}

func newSetup() *setup {
	s := &setup{spans: tracetest.NewInMemoryExporter(), reader: metric.NewManualReader()}
	s.tracer = sdktrace.NewTracerProvider(sdktrace.WithSyncer(s.spans))
	s.plugin = otel.New(otel.WithTracerProvider(s.tracer), otel.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(s.reader))))
	return s
}

// pair connects a client with a server; both have the plugin.
func pair(plugin any, register func(*server.Server) error) (*client.Client, func()) {
	network := transport.NewMemory()
	ln, err := network.Listen(context.Background(), "math")
	if err != nil {
		panic(err)
	}
	return pairAt(ln, "mem://math", plugin, register, client.WithTransport("mem", network))
}

// pairAt is pair with a listener, and the target that reaches it.
func pairAt(ln net.Listener, target string, plugin any, register func(*server.Server) error, opts ...client.Option) (*client.Client, func()) {
	srv := server.New(server.WithPlugins(plugin))
	if err := register(srv); err != nil {
		panic(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	c, err := client.Dial(target, append(opts, client.WithPlugins(plugin))...)
	if err != nil {
		panic(err)
	}
	return c, func() {
		_ = c.Close()
		_ = srv.Close()
		<-served
	}
}

// Strings of a peer need not be UTF-8, and OTLP's exporters lose a whole batch of spans for one
// that is not.
func TestStringsAreUTF8(t *testing.T) {
	s := newSetup()
	c, end := pair(s.plugin, func(srv *server.Server) error {
		return srv.RegisterFunc("A.Fail", func() error { return errors.New("bad \xff") })
	})
	for _, method := range []string{"A.\xff", "A.Fail"} {
		if err := c.Call(t.Context(), method, tandem.Args{}, nil); err == nil {
			t.Errorf("%q was called", method)
		}
	}
	end()
	spans := s.spans.GetSpans()
	if len(spans) != 6 {
		t.Errorf("%d spans", len(spans))
	}
	if text := spans[len(spans)-1].Status.Description; text != "bad \uFFFD" {
		t.Errorf("the error is %q", text)
	}
	checkUTF8(t, spans)
}

// A client chooses the name of its end of a unix socket, and a panic's text may contain what it
// sent.
func TestOtherStringsAreUTF8(t *testing.T) {
	s := newSetup()
	m := s.plugin.ForMethod(plugin.Method{Name: "A.A"}).(plugin.Intercepts)
	call := &tandem.Call{Peer: &tandem.Peer{Addr: &net.UnixAddr{Name: "/\xff", Net: "unix"}}}
	func() {
		defer func() {
			if v := recover(); v != "bad \xff" {
				t.Errorf("the panic is %v", v)
			}
		}()
		_ = m.Intercept(func(context.Context, *tandem.Call) error { panic("bad \xff") })(t.Context(), call)
	}()
	spans := s.spans.GetSpans()
	if len(spans) != 1 || len(spans[0].Events) != 1 {
		t.Fatalf("%d spans: %+v", len(spans), spans)
	}
	checkUTF8(t, spans)
}

// A peer's address and port have attributes of their own; a socket without a port has a name.
func TestPeers(t *testing.T) {
	s := newSetup()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	register := func(srv *server.Server) error { return srv.RegisterFunc("Math.Half", half) }
	c, end := pairAt(ln, "tcp://"+ln.Addr().String(), s.plugin, register)
	err = c.Call(t.Context(), "Math.Half", 2, nil)
	end()
	spans := s.spans.GetSpans()
	if err != nil || len(spans) != 3 {
		t.Fatalf("%d spans: %v", len(spans), err)
	}
	for _, span := range spans {
		address, port := peerOf(span)
		if ip, err := netip.ParseAddr(address); err != nil || ip != netip.MustParseAddr("127.0.0.1") {
			t.Errorf("%v span: the address is %q", span.SpanKind, address)
		}
		if listening := int64(ln.Addr().(*net.TCPAddr).Port); port == 0 || (port == listening) != (span.SpanKind == trace.SpanKindClient) {
			t.Errorf("%v span: the port is %d, that of the server %d", span.SpanKind, port, listening)
		}
	}

	s = newSetup()
	c, end = pair(s.plugin, register)
	err = c.Call(t.Context(), "Math.Half", 2, nil)
	end()
	if err != nil {
		t.Fatal(err)
	}
	for _, span := range s.spans.GetSpans() {
		if address, port := peerOf(span); address == "" || port != 0 {
			t.Errorf("%v span in memory: %q, %d", span.SpanKind, address, port)
		}
	}
}

// peerOf returns the attributes of the peer's address.
func peerOf(span tracetest.SpanStub) (address string, port int64) {
	for _, a := range span.Attributes {
		switch a.Key {
		case "network.peer.address":
			address = a.Value.AsString()
		case "network.peer.port":
			port = a.Value.AsInt64()
		}
	}
	return address, port
}

func checkUTF8(t *testing.T, spans tracetest.SpanStubs) {
	t.Helper()
	for _, span := range spans {
		texts := []string{span.Name, span.Status.Description}
		attributes := span.Attributes
		for _, event := range span.Events {
			texts, attributes = append(texts, event.Name), append(attributes, event.Attributes...)
		}
		for _, a := range attributes {
			texts = append(texts, string(a.Key), a.Value.String())
		}
		for _, text := range texts {
			if !utf8.ValidString(text) {
				t.Errorf("%v span %q has %q", span.SpanKind, span.Name, text)
			}
		}
	}
}

func half(n int) (int, error) {
	if n%2 == 1 {
		return 0, tandem.Errorf(tandem.OutOfRange, "%d is odd", n)
	}
	return n / 2, nil
}

// The handler's span is a child of the server's, that of the attempt's, that of the client's, and
// that of the caller's.
func TestSpans(t *testing.T) {
	s := newSetup()
	var seen tandem.Trace
	c, end := pair(s.plugin, func(srv *server.Server) error {
		return srv.RegisterFunc("Math.Half", func(ctx context.Context, n int) (int, error) {
			_, span := s.tracer.Tracer("test").Start(ctx, "inner")
			defer span.End()
			seen = tandem.FromContext(ctx).Trace
			return half(n)
		})
	})
	ctx, outer := s.tracer.Tracer("test").Start(t.Context(), "outer")
	err := c.Call(ctx, "Math.Half", 7, nil)
	outer.End()
	end()
	if tandem.CodeOf(err) != tandem.OutOfRange {
		t.Fatal(err)
	}
	list := s.spans.GetSpans() // in the order in which they ended
	if len(list) != 5 {
		t.Fatalf("%d spans", len(list))
	}
	for i, want := range []struct {
		name   string
		kind   trace.SpanKind
		status codes.Code
	}{
		{"inner", trace.SpanKindInternal, codes.Unset},
		{"Math.Half", trace.SpanKindServer, codes.Unset}, // an invalid argument is not an error of the server
		{"Attempt Math.Half", trace.SpanKindClient, codes.Error},
		{"Math.Half", trace.SpanKindClient, codes.Error},
		{"outer", trace.SpanKindInternal, codes.Unset},
	} {
		span := list[i]
		if span.Name != want.name || span.SpanKind != want.kind || span.Status.Code != want.status {
			t.Errorf("span %d: %s, %v, %v", i, span.Name, span.SpanKind, span.Status)
		}
		if i < 4 && span.Parent.SpanID() != list[i+1].SpanContext.SpanID() {
			t.Errorf("span %d is not inside the next", i)
		}
	}
	attributes := attribute.NewSet(list[1].Attributes...)
	for key, want := range map[attribute.Key]string{
		"rpc.system.name": "tandem", "rpc.method": "Math.Half", "rpc.response.status_code": "OUT_OF_RANGE", "error.type": "OUT_OF_RANGE",
	} {
		if got, _ := attributes.Value(key); got.AsString() != want {
			t.Errorf("%s: %q", key, got.AsString())
		}
	}
	if seen.ID != list[1].SpanContext.TraceID() || seen.Span != list[1].SpanContext.SpanID() || !seen.Sampled() {
		t.Errorf("the handler's call is at %+v", seen)
	}
}

// The span of a stream lasts as long as the stream.
func TestStreams(t *testing.T) {
	s := newSetup()
	c, end := pair(s.plugin, func(srv *server.Server) error {
		return server.HandleStream(srv, "Math.Echo", func(_ context.Context, st *tandem.Stream[int, int]) error {
			n, err := st.Recv()
			return errors.Join(err, st.Send(n))
		})
	})
	defer end()
	st, err := client.Stream[int, int](t.Context(), c, "Math.Echo")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(s.spans.GetSpans()); n != 0 {
		t.Errorf("%d spans have ended", n)
	}
	one := 1
	if err := st.Send(&one); err != nil {
		t.Fatal(err)
	}
	for _, want := range []error{nil, io.EOF} {
		if _, err := st.Recv(); !errors.Is(err, want) {
			t.Fatal(err)
		}
	}
	if n := len(s.spans.GetSpans()); n != 3 {
		t.Errorf("%d spans have ended", n)
	}
}

func TestDurations(t *testing.T) {
	s := newSetup()
	c, end := pair(s.plugin, func(srv *server.Server) error { return srv.RegisterFunc("Math.Half", half) })
	for n := range 5 {
		_ = c.Call(t.Context(), "Math.Half", n, nil)
	}
	end()
	var all metricdata.ResourceMetrics
	if err := s.reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	got := map[string]uint64{}
	for _, m := range all.ScopeMetrics[0].Metrics {
		for _, p := range m.Data.(metricdata.Histogram[float64]).DataPoints {
			code, _ := p.Attributes.Value("rpc.response.status_code")
			method, _ := p.Attributes.Value("rpc.method")
			got[fmt.Sprint(m.Name, " ", m.Unit, " ", method.AsString(), " ", code.AsString())] = p.Count
		}
	}
	for _, side := range []string{"server", "client"} {
		for code, want := range map[string]uint64{"OK": 3, "OUT_OF_RANGE": 2} {
			if name := "rpc." + side + ".call.duration s Math.Half " + code; got[name] != want {
				t.Errorf("%s: %d, want %d; all: %v", name, got[name], want, got)
			}
		}
	}
}

func Example() {
	spans := tracetest.NewInMemoryExporter() // in a program: an OTLP exporter
	telemetry := otel.New(otel.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))))
	c, end := pair(telemetry, func(srv *server.Server) error { return srv.RegisterFunc("Math.Half", half) })
	_ = c.Call(context.Background(), "Math.Half", 84, nil)
	end()
	for _, s := range spans.GetSpans() {
		fmt.Println(s.Name, s.SpanKind)
	}
	// Output:
	// Math.Half server
	// Attempt Math.Half client
	// Math.Half client
}
