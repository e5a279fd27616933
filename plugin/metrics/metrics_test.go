package metrics_test

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/plugin"
	"github.com/tandem-rpc/tandem/plugin/metrics"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair connects a client with a server; both have the plugin.
func pair(t testing.TB, m any, register func(*server.Server) error) *client.Client {
	t.Helper()
	srv := server.New(server.WithPlugins(m))
	if err := register(srv); err != nil {
		t.Fatal(err)
	}
	network := transport.NewMemory()
	ln, err := network.Listen(context.Background(), "m")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	c, err := client.Dial("mem://m", client.WithTransport("mem", network), client.WithPlugins(m))
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

func TestCallsAreCounted(t *testing.T) {
	m := metrics.New()
	waiting, goOn := make(chan struct{}), make(chan struct{})
	c := pair(t, m, func(srv *server.Server) error {
		return errors.Join(
			srv.RegisterFunc("A.Ok", func() int { return 1 }),
			srv.RegisterFunc("A.Fail", func() (int, error) { return 0, tandem.Errorf(tandem.NotFound, "nothing") }),
			srv.RegisterFunc("A.Wait", func() int { close(waiting); <-goOn; return 1 }),
		)
	})
	for range 3 {
		_ = c.Call(t.Context(), "A.Ok", tandem.Args{}, nil)
	}
	for range 2 {
		_ = c.Call(t.Context(), "A.Fail", tandem.Args{}, nil)
	}
	_ = c.Call(t.Context(), "A.Gone", tandem.Args{}, nil)
	done := c.Go(t.Context(), "A.Wait", tandem.Args{}, nil, nil).Done
	<-waiting
	want := map[string]uint64{"server A.Ok": 3, "server A.Fail": 2, "server A.Wait": 0,
		"client A.Ok": 3, "client A.Fail": 2, "client A.Gone": 1, "client A.Wait": 0, "server _OTHER": 1}
	got := map[string]uint64{}
	for _, s := range m.Snapshot() {
		got[s.Side.String()+" "+s.Method] = s.Calls()
		failed := map[string]map[tandem.Code]uint64{"A.Fail": {tandem.NotFound: 2}, "A.Gone": {tandem.Unimplemented: 1}, metrics.Other: {tandem.Unimplemented: 1}}[s.Method]
		if !maps.Equal(s.Errors, failed) {
			t.Errorf("%v %s: errors %v", s.Side, s.Method, s.Errors)
		}
		running := map[string]int64{"A.Wait": 1}[s.Method]
		if s.Running != running {
			t.Errorf("%v %s: %d running", s.Side, s.Method, s.Running)
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	close(goOn)
	<-done
	for _, s := range m.Snapshot() {
		if s.Running != 0 {
			t.Errorf("%s: %d running at the end", s.Method, s.Running)
		}
	}
}

// Concurrent calls are all counted.
func TestCountsAddUp(t *testing.T) {
	m := metrics.New()
	count := m.Intercept(func(context.Context, *tandem.Call) error { return nil })
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			call := &tandem.Call{Method: "A.B"}
			for range 1000 {
				_ = count(t.Context(), call)
				m.AfterCall(t.Context(), call, tandem.Outcome{Took: time.Millisecond})
			}
		})
	}
	wg.Wait()
	if s := m.Snapshot(); len(s) != 1 || s[0].Calls() != 8000 || s[0].Latency.Sum != 8*time.Second || s[0].Running != 0 {
		t.Errorf("got %+v", s)
	}
}

// However many names a client calls, memory is bounded.
func TestMethodsAreBounded(t *testing.T) {
	m := metrics.New(metrics.WithMaxMethods(2))
	for i := range 5 {
		m.AfterCall(t.Context(), &tandem.Call{Method: "A." + strconv.Itoa(i)}, tandem.Outcome{})
	}
	s := m.Snapshot()
	if len(s) != 3 || s[2].Method != metrics.Other || s[2].Calls() != 3 {
		t.Errorf("got %+v", s)
	}
}

// A client may call a name of any bytes, and a metrics system that gets a name that is not
// UTF-8 refuses the whole export.
func TestNamesAreText(t *testing.T) {
	m := metrics.New()
	m.AfterCall(t.Context(), &tandem.Call{Method: "A.\xff"}, tandem.Outcome{})
	if s := m.Snapshot(); len(s) != 1 || s[0].Method != metrics.Other || s[0].Calls() != 1 {
		t.Errorf("got %+v", s)
	}
}

func TestHistogram(t *testing.T) {
	for d, want := range map[time.Duration]int{
		-1: 0, 0: 0, 1: 0, 16384: 0, 16385: 1, 32768: 1, 32769: 2,
		metrics.Bound(20): 20, metrics.Bound(20) + 1: 21, 1 << 62: 21,
	} {
		m := metrics.New()
		m.AfterCall(t.Context(), &tandem.Call{Method: "A.B"}, tandem.Outcome{Took: d})
		if h := m.Snapshot()[0].Latency; h.Counts[want] != 1 || h.Count() != 1 {
			t.Errorf("%v: got %v, want it in bucket %d", d, h.Counts, want)
		}
	}
	var h metrics.Histogram
	if h.Quantile(0.5) != 0 {
		t.Error("a quantile of nothing")
	}
	h.Counts[1], h.Counts[3], h.Counts[21] = 90, 9, 1
	for q, want := range map[float64]time.Duration{0: metrics.Bound(1), 0.5: metrics.Bound(1), 0.9: metrics.Bound(1),
		0.95: metrics.Bound(3), 0.99: metrics.Bound(3), 1: metrics.Bound(20)} {
		if got := h.Quantile(q); got != want {
			t.Errorf("quantile %v: got %v, want %v", q, got, want)
		}
	}
}

// Counting allocates nothing.
func TestCountingAllocatesNothing(t *testing.T) {
	m := metrics.New()
	point := m.ForMethod(plugin.Method{Name: "A.B"})
	call, end := &tandem.Call{Method: "A.B"}, tandem.Outcome{Took: time.Millisecond}
	served := point.(plugin.Intercepts).Intercept(func(context.Context, *tandem.Call) error { return nil })
	called := m.Intercept(func(context.Context, *tandem.Call) error { return nil })
	ctx := t.Context()
	if n := testing.AllocsPerRun(1000, func() {
		_ = served(ctx, call)
		point.(plugin.AfterResponse).AfterResponse(ctx, call, end)
		_ = called(ctx, call)
		m.AfterCall(ctx, call, end)
	}); n > 0 {
		t.Errorf("%v allocations a call", n)
	}
}

// Attempts are counted beside calls, also those of calls that found no instance.
func TestAttempts(t *testing.T) {
	m := metrics.New()
	for _, attempts := range []int{1, 3, 0, 1} {
		m.AfterCall(t.Context(), &tandem.Call{Method: "A.B"}, tandem.Outcome{Attempts: attempts})
	}
	if s := m.Snapshot()[0]; s.Calls() != 4 || s.Attempts != 5 {
		t.Errorf("%d attempts at %d calls", s.Attempts, s.Calls())
	}
}

// A bucket keeps a sampled call for a second, and then takes another one.
func TestExemplars(t *testing.T) {
	m, began := metrics.New(), time.Unix(1e9, 0)
	call := func(id byte, flags byte, after time.Duration, took time.Duration) {
		trace := tandem.Trace{ID: [16]byte{id}, Span: [8]byte{id}, Flags: flags}
		m.AfterCall(t.Context(), &tandem.Call{Method: "A.B", Trace: trace}, tandem.Outcome{Began: began.Add(after), Took: took, Attempts: 1})
	}
	call(1, tandem.TraceSampled, 0, time.Millisecond)
	call(2, tandem.TraceSampled, 0, time.Millisecond)           // the bucket has one
	call(3, 0, 5*time.Second, time.Millisecond)                 // not sampled
	call(4, tandem.TraceSampled, 0, time.Second)                // another bucket
	call(5, tandem.TraceSampled, time.Minute, time.Millisecond) // the first is old
	got := m.Snapshot()[0].Exemplars
	if len(got) != 2 || got[0].ID[0] != 5 || got[0].Span[0] != 5 || got[1].ID[0] != 4 || got[1].Took != time.Second {
		t.Errorf("got %+v", got)
	}
}
