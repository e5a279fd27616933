package prom_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/once"
	"github.com/tandem-rpc/tandem/plugin/metrics"
	"github.com/tandem-rpc/tandem/plugin/trace"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/resilience"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/telemetry/prom"
	"github.com/tandem-rpc/tandem/transport"
)

// cluster is a server and a client with all collectors, after some calls; it makes a series of
// every metric.
func cluster(t *testing.T) *prometheus.Registry {
	t.Helper()
	m, list, network := metrics.New(), registry.NewMemory(), transport.NewMemory()
	srv := server.New(server.WithPlugins(m, trace.New()), server.WithRegistrar(list, tandem.Instance{ID: "a"}))
	if err := srv.RegisterFunc("A.Fail", func() error { return tandem.Errorf(tandem.Unavailable, "no") }); err != nil {
		t.Fatal(err)
	}
	ln, err := network.Listen(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	c, err := client.Dial("memory:///a", client.WithResolver("memory", list), client.WithTransport("mem", network),
		client.WithFailMode(client.Failtry), client.WithRetries(1), client.WithPlugins(m, trace.New()), client.WithBreaker(resilience.BreakerConfig{}))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Call(t.Context(), "A.Fail", tandem.Args{}, nil, client.Idempotent()); tandem.CodeOf(err) != tandem.Unavailable {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Close()
		_ = srv.Close()
		<-served
	})
	all := prometheus.NewPedanticRegistry()
	all.MustRegister(prom.Collector(m), prom.ServerCollector(srv), prom.ClientCollector(c),
		prom.OnceCollector(once.New(once.NewMemory(once.MemoryConfig{}))))
	all.MustRegister(identityState(t)...)
	return all
}

// documented is a row of the table in docs/reference/metrics.md, as text.
var documented = regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (\\w+) \\| [^|]+ \\|([^|]*)\\|")

// docs/reference/metrics.md lists the metrics of a scrape with their types and labels, and no others.
func TestMetricsAreDocumented(t *testing.T) {
	families, err := cluster(t).Gather()
	if err != nil {
		t.Fatal(err)
	}
	var scraped, described []string
	for _, f := range families {
		labels := map[string]bool{}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = true
			}
		}
		scraped = append(scraped, row(f.GetName(), strings.ToLower(f.GetType().String()), labels))
	}
	text, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range documented.FindAllStringSubmatch(string(text), -1) {
		labels := map[string]bool{}
		for _, l := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(m[3], -1) {
			labels[l[1]] = true
		}
		described = append(described, row(m[1], m[2], labels))
	}
	for _, s := range scraped {
		if !slices.Contains(described, s) {
			t.Errorf("not in docs/reference/metrics.md: %s", s)
		}
	}
	for _, d := range described {
		if !slices.Contains(scraped, d) {
			t.Errorf("docs/reference/metrics.md has a metric that a scrape does not: %s", d)
		}
	}
}

func row(name, kind string, labels map[string]bool) string {
	var list []string
	for l := range labels {
		list = append(list, l)
	}
	slices.Sort(list)
	return fmt.Sprint(name, " ", kind, " ", list)
}

// The names of the state's metrics follow Prometheus's rules.
func TestLintOfState(t *testing.T) {
	problems, err := testutil.GatherAndLint(cluster(t))
	if err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}

// The state of a client and a server has the values of what happened: one instance, one
// connection, two attempts at one call, both in a trace.
func TestState(t *testing.T) {
	all := cluster(t)
	want := `
# HELP rpc_client_call_attempts_total Attempts at calls that have ended.
# TYPE rpc_client_call_attempts_total counter
rpc_client_call_attempts_total{rpc_method="A.Fail",rpc_system_name="tandem"} 2
# HELP tandem_client_connections Open connections that take calls.
# TYPE tandem_client_connections gauge
tandem_client_connections{target="memory:///a"} 1
# HELP tandem_client_method_breakers Circuit breakers of a method, one for each instance.
# TYPE tandem_client_method_breakers gauge
tandem_client_method_breakers{rpc_method="A.Fail",state="closed",target="memory:///a"} 1
tandem_client_method_breakers{rpc_method="A.Fail",state="half-open",target="memory:///a"} 0
tandem_client_method_breakers{rpc_method="A.Fail",state="open",target="memory:///a"} 0
# HELP tandem_server_connections Open connections.
# TYPE tandem_server_connections gauge
tandem_server_connections{network_protocol_name="tandem"} 1
# HELP tandem_server_listed 1 if the registry has taken the instance.
# TYPE tandem_server_listed gauge
tandem_server_listed{tandem_instance="a"} 1
`
	names := []string{"rpc_client_call_attempts_total", "tandem_client_connections", "tandem_client_method_breakers", "tandem_server_connections", "tandem_server_listed"}
	if err := testutil.GatherAndCompare(all, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
	families, err := all.Gather()
	if err != nil {
		t.Fatal(err)
	}
	traced := map[string]bool{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, b := range m.GetHistogram().GetBucket() {
				if e := b.GetExemplar(); e != nil && len(e.GetLabel()) == 2 && e.GetTimestamp().AsTime().Unix() > 0 {
					traced[f.GetName()] = true
				}
			}
		}
	}
	if !traced["rpc_client_call_duration_seconds"] || !traced["rpc_server_call_duration_seconds"] {
		t.Errorf("exemplars: %v", traced)
	}
}

// Clients of two targets can be registered in one registry.
func TestTwoClients(t *testing.T) {
	all := prometheus.NewPedanticRegistry()
	for _, target := range []string{"static://127.0.0.1:1", "static://127.0.0.1:2"} {
		c, err := client.Dial(target)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := all.Register(prom.ClientCollector(c)); err != nil {
			t.Error(err)
		}
	}
	if n, err := testutil.GatherAndCount(all, "tandem_client_connections"); n != 2 || err != nil {
		t.Error(n, err)
	}
}

func ExampleClientCollector() {
	c, err := client.Dial("static://127.0.0.1:1")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	srv := server.New()
	defer srv.Close()
	all := prometheus.NewRegistry()
	all.MustRegister(prom.ClientCollector(c), prom.ServerCollector(srv))
	fmt.Println(testutil.GatherAndCount(all, "tandem_client_connections", "tandem_server_draining"))
	// Output: 2 <nil>
}
