package prom_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/plugin/metrics"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/telemetry/prom"
	"github.com/tandem-rpc/tandem/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// half makes some calls, two of which fail.
func half(m *metrics.Metrics) {
	srv := server.New(server.WithPlugins(m))
	_ = srv.RegisterFunc("Math.Half", func(n int) (int, error) {
		if n%2 == 1 {
			return 0, tandem.Errorf(tandem.OutOfRange, "%d is odd", n)
		}
		return n / 2, nil
	})
	network := transport.NewMemory()
	ln, _ := network.Listen(context.Background(), "math")
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	c, _ := client.Dial("mem://math", client.WithTransport("mem", network), client.WithPlugins(m))
	for n := range 5 {
		_ = c.Call(context.Background(), "Math.Half", n, nil)
	}
	_ = c.Close()
	_ = srv.Close()
	<-served
}

// A scrape over HTTP has the calls of both sides.
func TestScrape(t *testing.T) {
	m := metrics.New()
	half(m)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(prom.Collector(m))
	scraped := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	defer scraped.Close()
	r, err := http.Get(scraped.URL)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r.Body)
	_ = r.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatal(r.Status, err)
	}
	for _, side := range []string{"server", "client"} {
		const labels = `{rpc_method="Math.Half",rpc_`
		for _, line := range []string{
			"rpc_" + side + "_call_duration_seconds_count" + labels + `system_name="tandem"} 5`,
			"rpc_" + side + "_call_errors_total" + labels + `response_status_code="OUT_OF_RANGE",rpc_system_name="tandem"} 2`,
			"rpc_" + side + "_active_calls" + labels + `system_name="tandem"} 0`,
			"rpc_" + side + "_call_duration_seconds_bucket" + labels + `system_name="tandem",le="+Inf"} 5`,
		} {
			if !strings.Contains(string(text), line+"\n") {
				t.Errorf("no line %s in\n%s", line, text)
			}
		}
	}
}

// The names follow Prometheus's rules, and the buckets add up.
func TestLint(t *testing.T) {
	m := metrics.New()
	half(m)
	problems, err := testutil.CollectAndLint(prom.Collector(m))
	if err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}

func Example() {
	m := metrics.New()
	half(m) // a server and a client with server.WithPlugins(m), client.WithPlugins(m)
	registry := prometheus.NewRegistry()
	registry.MustRegister(prom.Collector(m))
	fmt.Println(testutil.GatherAndCount(registry))
	// Output:
	// 7 <nil>
}

// The state of a server's overload control is exported, with refusals by reason.
func TestOverload(t *testing.T) {
	srv := server.New(server.WithOverloadControl(server.OverloadConfig{FirstLimit: 1, Calls: 1}))
	release, began := make(chan bool), make(chan bool, 1)
	err := server.Handle(srv, "Test.Hold", func(context.Context, *int) (*int, error) {
		began <- true
		<-release
		return new(int), nil
	}, server.MethodConcurrency(10, 0)) // so no reader runs it
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
	c, err := client.Dial("mem://a", client.WithTransport("mem", network), client.WithFailMode(client.Failfast))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 3)
	call := func() { done <- c.Call(t.Context(), "Test.Hold", new(int), new(int)) }
	go call()
	<-began
	go call()
	go call()
	if err := <-done; tandem.CodeOf(err) != tandem.ResourceExhausted {
		t.Errorf("one of three calls where one runs and one waits: %v", err)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(prom.OverloadCollector(srv))
	want := `
# HELP tandem_server_overload_method_limit Handlers of a method that may run.
# TYPE tandem_server_overload_method_limit gauge
tandem_server_overload_method_limit{rpc_method="Test.Hold"} 1
# HELP tandem_server_overload_refused_total Requests that were refused as not executed.
# TYPE tandem_server_overload_refused_total counter
tandem_server_overload_refused_total{reason="expired"} 0
tandem_server_overload_refused_total{reason="full"} 1
tandem_server_overload_refused_total{reason="late"} 0
tandem_server_overload_refused_total{reason="streams"} 0
# HELP tandem_server_overload_waiting Requests in the queue.
# TYPE tandem_server_overload_waiting gauge
tandem_server_overload_waiting 1
`
	names := []string{"tandem_server_overload_method_limit", "tandem_server_overload_refused_total", "tandem_server_overload_waiting"}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
	close(release)
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	_ = c.Close() // errors of the client and the server do not matter any more
	_ = srv.Close()
	<-served
}
