//go:build integration

package observe

import (
	"bufio"
	"context"
	"errors"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/plugin/metrics"
	"github.com/tandem-rpc/tandem/plugin/trace"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/resilience"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/telemetry/prom"
	"github.com/tandem-rpc/tandem/transport"
)

// cluster is three server processes in a registry, servers and clients of the test's own process,
// and their load. Each server and client has an address for its metrics.
type cluster struct {
	t         *testing.T
	dir       string
	ctx       context.Context //nolint:containedctx // ends with the test
	processes map[string]*exec.Cmd
	scraped   map[string][]string             // job to addresses
	later     map[string]*prometheus.Registry // of servers and clients that come with the trouble
	load      sync.WaitGroup
	list      *registry.Memory
}

// The clients and servers of the test's own process.
const (
	caller   = "caller"   // a client that calls all servers
	stale    = "stale"    // a client whose registry fails
	broken   = "broken"   // a client with circuit breakers
	ejecting = "ejecting" // a client that ejects all instances
	lonely   = "lonely"   // a client whose server was killed
	calm     = "calm"     // a server of which nothing is wrong
	crowded  = "crowded"  // a server that is overloaded
	small    = "small"    // a server with little memory, and connections that speak no protocol
	unlisted = "unlisted" // a server that its registry refuses
)

func startCluster(t *testing.T) *cluster {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	c := &cluster{
		t: t, dir: t.TempDir(), ctx: ctx, processes: map[string]*exec.Cmd{},
		scraped: map[string][]string{}, later: map[string]*prometheus.Registry{}, list: registry.NewMemory(),
	}
	t.Cleanup(func() {
		cancel()
		c.load.Wait()
		for _, p := range c.processes {
			_ = p.Process.Kill()
			_ = p.Wait() // the error only says that it was killed
		}
	})
	for _, id := range []string{"s1", "s2", "s3"} {
		c.start(id)
	}
	for _, name := range []string{caller, stale, broken, ejecting, lonely} {
		c.expect("client", name)
	}
	for _, name := range []string{calm, crowded, small, unlisted} {
		c.expect("server", name)
	}
	if err := os.WriteFile(c.policy(), []byte(`{"version": "v1", "retryBudget": {"share": 0.1, "perSecond": 10}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	calling := c.dial(caller, c.target(), client.WithFailMode(client.Failover), client.WithPolicyFrom(policy.File(c.policy()), "caller"),
		client.WithBreaker(resilience.BreakerConfig{Consecutive: -1, FailureRate: 1, MinCalls: 1e6}), client.WithEjection(nil))
	c.call(calling, get, 10*time.Millisecond)
	c.listIn(c.list, calm, strings.TrimPrefix(c.serve(calm), "tcp://"))
	c.call(c.dial(stale, "memory:///shop", client.WithResolver("memory", c.list)), get, 100*time.Millisecond)
	return c
}

func (c *cluster) registry() string          { return filepath.Join(c.dir, "registry") }
func (c *cluster) policy() string            { return filepath.Join(c.dir, "policy.json") }
func (c *cluster) target() string            { return "file://" + c.registry() }
func (c *cluster) jobs() map[string][]string { return c.scraped }

// start starts a server process.
func (c *cluster) start(id string) {
	c.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envServer+"="+id, envRegistry+"="+c.registry())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.processes[id] = cmd
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		c.t.Fatal(err)
	}
	c.scraped["server"] = append(c.scraped["server"], strings.TrimSpace(address))
}

// expect serves the metrics of a server or client that may come later.
func (c *cluster) expect(job, name string) {
	all := prometheus.NewRegistry()
	at := httptest.NewServer(handler(all))
	c.t.Cleanup(at.Close)
	c.later[name] = all
	c.scraped[job] = append(c.scraped[job], at.Listener.Addr().String())
}

// dial makes a client whose metrics are exported.
func (c *cluster) dial(name, target string, opts ...client.Option) *client.Client {
	c.t.Helper()
	m := metrics.New()
	made, err := client.Dial(target, append(opts, client.WithPlugins(m, trace.New()))...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = made.Close() })
	c.later[name].MustRegister(prom.Collector(m), prom.ClientCollector(made))
	return made
}

// call makes calls at an interval until the test ends. Their errors do not matter.
func (c *cluster) call(at *client.Client, method string, every time.Duration) {
	type none struct{}
	one := func() { _ = at.Call(c.ctx, method, new(none), new(none), client.Idempotent()) }
	c.load.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for c.ctx.Err() == nil {
			c.load.Go(one)
			select {
			case <-tick.C:
			case <-c.ctx.Done():
			}
		}
	})
}

// serve starts a server whose metrics are exported, and returns its target.
func (c *cluster) serve(name string, opts ...server.Option) string {
	c.t.Helper()
	m := metrics.New()
	srv := server.New(append(opts, server.WithPlugins(m))...)
	if err := register(srv); err != nil {
		c.t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve("tcp", "127.0.0.1:0") }()
	c.t.Cleanup(func() {
		_ = srv.Close()
		<-served
	})
	c.later[name].MustRegister(prom.Collector(m), prom.ServerCollector(srv))
	for len(srv.Addrs()) == 0 {
		time.Sleep(time.Millisecond) // until it listens
	}
	return "tcp://" + srv.Addrs()[0].String()
}

// trouble makes every trouble that an alert is for.
func (c *cluster) trouble() {
	c.t.Helper()
	// A server is killed: TandemServerDown. It was the only one of a client: TandemClientNoInstance,
	// TandemClientInstancesLost.
	_ = c.processes["s3"].Process.Kill()
	gone := registry.NewMemory()
	c.listIn(gone, "gone", "127.0.0.1:1")
	c.call(c.dial(lonely, "memory:///gone", client.WithResolver("memory", gone)), get, time.Second)

	// A method fails, another is slow: TandemServerErrors, TandemClientErrors, TandemServerSlow.
	// Retries: TandemClientRetries, and more of them than the budget allows:
	// TandemClientRetryBudget. A second policy in force: TandemPoliciesDiffer.
	calling := c.dial(ejecting, c.target(), client.WithFailMode(client.Failover), client.WithPolicy(&policy.Policy{Version: "v2"}))
	c.call(calling, fail, 40*time.Millisecond) // ejects all instances, too: TandemClientPanicking
	c.call(calling, slow, 200*time.Millisecond)
	breaking := c.dial(broken, c.target(), client.WithEjection(nil), client.WithFailMode(client.Failfast),
		client.WithBreaker(resilience.BreakerConfig{Consecutive: 3, Pause: time.Minute})) // TandemClientBreakerOpen
	c.call(breaking, fail, 500*time.Millisecond) // few: calls that an open breaker refuses have no attempt

	c.overload()
	if err := os.WriteFile(c.policy(), []byte(`{"version": 7}`), 0o600); err != nil { // TandemPolicyRejected
		c.t.Fatal(err)
	}
	c.list.Fail(errors.New("the registry is away"))                                    // TandemRegistryFailing
	c.serve(unlisted, server.WithRegistrar(refusing{}, tandem.Instance{ID: unlisted})) // TandemServerNotListed
}

// overload makes a server refuse calls, for overload and for memory, and sends it connections that
// speak no protocol: TandemServerOverloaded, TandemServerMemory, TandemServerUnrecognized.
func (c *cluster) overload() {
	c.t.Helper()
	full := c.dialPlain(c.serve(crowded, server.WithOverloadControl(server.OverloadConfig{FirstLimit: 1, Calls: 1})))
	c.call(full, hold, 100*time.Millisecond)
	at := c.serve(small, server.WithMemory(64<<10), server.WithHandshakeTimeout(100*time.Millisecond))
	filling := c.dialPlain(at)
	large := strings.Repeat("x", 1<<20)
	c.load.Go(func() {
		for c.ctx.Err() == nil {
			_ = filling.Call(c.ctx, get, large, nil, client.Timeout(300*time.Millisecond)) // refused
			if conn, err := transport.TCP().Dial(c.ctx, strings.TrimPrefix(at, "tcp://")); err == nil {
				_, _ = conn.Write([]byte("nonsense\r\n\r\n"))
				_, _ = conn.Read(make([]byte, 1)) // until the server closes it
				_ = conn.Close()
			}
		}
	})
}

// dialPlain makes a client without metrics.
func (c *cluster) dialPlain(target string) *client.Client {
	c.t.Helper()
	made, err := client.Dial(target, client.WithThrottle(nil))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = made.Close() })
	return made
}

// listIn lists an instance.
func (c *cluster) listIn(list *registry.Memory, id, address string) {
	c.t.Helper()
	in := tandem.Instance{ID: id, Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: address}}}
	if _, err := list.Register(c.ctx, in); err != nil {
		c.t.Fatal(err)
	}
}

// refusing is a registry that takes no instance.
type refusing struct{}

func (refusing) Register(context.Context, tandem.Instance) (registry.Registration, error) {
	return nil, errors.New("you may not write here")
}
