package trace_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/plugin/trace"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	theID   = "4bf92f3577b34da6a3ce929d0e0e4736"
	theSpan = "00f067aa0ba902b7"
	example = "00-" + theID + "-" + theSpan + "-01" // the specification's
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		example:                               example,
		"01-" + example[3:] + "-more":         example, // a later version
		"01-" + example[3:]:                   example,
		"00-" + theID + "-" + theSpan + "-00": "00-" + theID + "-" + theSpan + "-00",
		"":                                    "",
		example[:54]:                          "",
		example + "-more":                     "",
		"01-" + example[3:] + "more":          "",
		"ff-" + example[3:]:                   "",
		strings.ToUpper(example):              "",
		strings.Replace(example, "-", "_", 1): "",
		"00-" + strings.Repeat("0", 32) + "-" + theSpan + "-01": "",
		"00-" + theID + "-" + strings.Repeat("0", 16) + "-01":   "",
		"00-" + theID[:31] + "g-" + theSpan + "-01":             "",
	} {
		var got tandem.Trace
		if ok := trace.Parse(text, &got); ok != (want != "") || ok && trace.String(&got) != want {
			t.Errorf("%q: got %v, %q", text, ok, trace.String(&got))
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(example)
	f.Add("01-" + example[3:] + "-")
	f.Fuzz(func(t *testing.T, text string) {
		var got tandem.Trace
		if !trace.Parse(text, &got) {
			if got.Valid() {
				t.Error("a traceparent that was refused has changed the trace")
			}
			return
		}
		if s := trace.String(&got); s[3:] != text[3:len(s)] {
			t.Errorf("%q became %q", text, s)
		}
	})
}

// spans records the spans that have ended.
type spans struct {
	mu   sync.Mutex
	list []trace.Span
}

func (s *spans) record(span *trace.Span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, *span)
}

func serve(t *testing.T, network *transport.Memory, name string, p any, register func(*server.Server) error) *client.Client {
	t.Helper()
	srv := server.New(server.WithPlugins(p))
	if err := register(srv); err != nil {
		t.Fatal(err)
	}
	ln, err := network.Listen(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	c, err := client.Dial("mem://"+name, client.WithTransport("mem", network), client.WithPlugins(p))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Close()
		_ = srv.Close()
		<-served
	})
	return c
}

// A chain of two calls is one trace of four spans, each the parent of the next.
func TestChainIsOneTrace(t *testing.T) {
	var kept spans
	p := trace.New(trace.To(kept.record))
	network := transport.NewMemory()
	back := serve(t, network, "back", p, func(s *server.Server) error {
		return s.RegisterFunc("Back.Fail", func() error { return tandem.Errorf(tandem.NotFound, "nothing") })
	})
	front := serve(t, network, "front", p, func(s *server.Server) error {
		return s.RegisterFunc("Front.Ask", func(ctx context.Context) error {
			return back.Call(ctx, "Back.Fail", tandem.Args{}, nil)
		})
	})
	if err := front.Call(t.Context(), "Front.Ask", tandem.Args{}, nil); tandem.CodeOf(err) != tandem.NotFound {
		t.Fatal(err)
	}
	list := kept.list // in the order in which they ended
	if len(list) != 4 {
		t.Fatalf("%d spans", len(list))
	}
	for i, want := range []struct {
		method string
		client bool
	}{{"Back.Fail", false}, {"Back.Fail", true}, {"Front.Ask", false}, {"Front.Ask", true}} {
		s := list[i]
		if s.Method != want.method || s.Client != want.client || s.ID != list[0].ID || tandem.CodeOf(s.Err) != tandem.NotFound || s.Began.IsZero() || s.Peer == nil {
			t.Errorf("span %d: %+v", i, s)
		}
		parent := [8]byte{}
		if i < 3 {
			parent = list[i+1].Span
		}
		if s.Parent != parent {
			t.Errorf("span %d is in %x, not in %x", i, s.Parent, parent)
		}
	}
}

// A trace from elsewhere is continued, with its tracestate.
func TestTraceFromElsewhere(t *testing.T) {
	var seen tandem.Trace
	var metadata tandem.Metadata
	p := trace.New(trace.Sample(0))
	c := serve(t, transport.NewMemory(), "s", p, func(s *server.Server) error {
		return s.RegisterFunc("S.See", func(ctx context.Context) {
			call := tandem.FromContext(ctx)
			seen, metadata = trace.FromContext(ctx), call.Metadata.Clone()
		})
	})
	for _, flags := range []string{"00", "01"} {
		var begun tandem.Trace
		if !trace.Parse(example[:53]+flags, &begun) {
			t.Fatal("the example")
		}
		begun.State = "vendor=1"
		if err := c.Call(trace.NewContext(t.Context(), begun), "S.See", tandem.Args{}, nil); err != nil {
			t.Fatal(err)
		}
		if seen.ID != begun.ID || seen.Flags != begun.Flags || seen.State != "vendor=1" || seen.Span == begun.Span || metadata.Get("tracestate") != "vendor=1" {
			t.Errorf("flags %s: got %+v, %v", flags, seen, metadata)
		}
		if !strings.HasPrefix(metadata.Get("traceparent"), "00-"+theID+"-") || strings.Contains(metadata.Get("traceparent"), theSpan) {
			t.Errorf("sent %q", metadata.Get("traceparent"))
		}
	}
}

// An invalid traceparent begins a new trace.
func TestBadParent(t *testing.T) {
	p := trace.New()
	for _, m := range []tandem.Metadata{nil, {"traceparent": {"00-no"}}, {"traceparent": {example, example}}} {
		call := &tandem.Call{Metadata: m}
		if err := p.BeforeRequestHeader(t.Context(), call); err != nil || !call.Trace.Valid() || call.Trace.Parent != [8]byte{} {
			t.Errorf("%v: got %+v, %v", m, call.Trace, err)
		}
	}
}

// Sampling is decided where the trace begins.
func TestSample(t *testing.T) {
	for share, want := range map[float64]func(n int) bool{
		0: func(n int) bool { return n == 0 }, 1: func(n int) bool { return n == 1000 },
		0.5: func(n int) bool { return n > 350 && n < 650 }, // nine standard deviations
	} {
		n := 0
		p := trace.New(trace.Sample(share), trace.To(func(*trace.Span) { n++ }))
		for range 1000 {
			call := &tandem.Call{}
			if err := p.BeforeCall(t.Context(), call); err != nil {
				t.Fatal(err)
			}
			p.AfterCall(t.Context(), call, tandem.Outcome{Err: errors.New("any")})
		}
		if !want(n) {
			t.Errorf("%d of 1000 at %v", n, share)
		}
	}
}

// Tracing a call allocates nothing but the text that is sent.
func TestTracingAllocates(t *testing.T) {
	p := trace.New()
	var call tandem.Call
	served := &tandem.Call{Metadata: tandem.Metadata{"traceparent": {example}}}
	ctx := t.Context()
	if n := testing.AllocsPerRun(1000, func() {
		_ = p.BeforeCall(ctx, &call)
		p.AfterCall(ctx, &call, tandem.Outcome{})
		call.Reset()
		_ = p.BeforeRequestHeader(ctx, served)
		p.AfterResponse(ctx, served, tandem.Outcome{})
	}); n > 1 {
		t.Errorf("%v allocations a call", n)
	}
}
