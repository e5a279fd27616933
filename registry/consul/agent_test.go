//go:build integration

package consul

import (
	"cmp"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/tandem-rpc/tandem/registry/registrytest"
)

// consulVersion is the version that install.sh builds.
const consulVersion = "1.13.9"

// binary returns the Consul agent that install.sh has built, or that CONSUL names.
// Without one the test fails.
func binary(t testing.TB) string {
	t.Helper()
	cache := cmp.Or(os.Getenv("XDG_CACHE_HOME"), filepath.Join(must(os.UserHomeDir()), ".cache")) // the same directory as in install.sh
	path := cmp.Or(os.Getenv("CONSUL"), filepath.Join(cache, "tandem", "consul-"+consulVersion, "consul"))
	if _, err := exec.LookPath(path); err != nil {
		t.Fatalf("there is no Consul agent: run registry/consul/install.sh: %v", err)
	}
	return path
}

// agent is a real Consul server, the only one of its cluster, started by the test.
type agent struct {
	t      testing.TB
	dir    string
	addr   string // address of its HTTP API, with or without TLS
	config map[string]any
	cmd    *exec.Cmd
	api    *api.Client // has every permission
}

// startAgent prepares an agent, with extra merged into its configuration. Call start to
// run it.
func startAgent(t testing.TB, extra map[string]any) *agent {
	t.Helper()
	ports := []int{registrytest.FreePort(t), registrytest.FreePort(t), registrytest.FreePort(t)}
	a := &agent{t: t, dir: t.TempDir(), addr: fmt.Sprintf("127.0.0.1:%d", ports[0])}
	a.api = a.connect("http", "", nil)
	a.config = map[string]any{
		"server": true, "bootstrap_expect": 1, "node_name": "test", "datacenter": "dc1",
		"bind_addr": "127.0.0.1", "client_addr": "127.0.0.1",
		"ports": map[string]any{
			"http": ports[0], "server": ports[1], "serf_lan": ports[2],
			"https": -1, "grpc": -1, "dns": -1, "serf_wan": -1,
		},
		"performance":          map[string]any{"raft_multiplier": 1},
		"connect":              map[string]any{"enabled": false},
		"disable_update_check": true, "disable_remote_exec": true, "leave_on_terminate": false,
		"log_level": "warn",
	}
	maps.Copy(a.config, extra)
	t.Cleanup(a.kill)
	return a
}

// connect returns a client of the agent.
func (a *agent) connect(scheme, token string, config *tls.Config) *api.Client {
	transport := &http.Transport{TLSClientConfig: config}
	a.t.Cleanup(transport.CloseIdleConnections)
	return must(api.NewClient(&api.Config{Address: a.addr, Scheme: scheme, Token: token, HttpClient: &http.Client{Transport: transport}}))
}

// start runs the agent and waits until it leads its cluster.
func (a *agent) start() *agent {
	a.t.Helper()
	config := filepath.Join(a.dir, "config.json")
	if err := os.WriteFile(config, must(json.Marshal(a.config)), 0o600); err != nil {
		a.t.Fatal(err)
	}
	log := must(os.OpenFile(filepath.Join(a.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600))
	defer log.Close()
	a.cmd = exec.Command(binary(a.t), "agent", "-config-file", config, "-data-dir", a.data())
	a.cmd.Stdout, a.cmd.Stderr = log, log
	if err := a.cmd.Start(); err != nil {
		a.t.Fatal(err)
	}
	a.ready()
	return a
}

func (a *agent) data() string { return filepath.Join(a.dir, "data") }

// ready waits until the agent answers from its catalogue, which needs a leader.
func (a *agent) ready() {
	a.t.Helper()
	deadline := time.Now().Add(40 * time.Second)
	for {
		nodes, _, err := a.api.Catalog().Nodes(nil)
		if err == nil && len(nodes) == 1 {
			return
		}
		if time.Now().After(deadline) {
			log, _ := os.ReadFile(filepath.Join(a.dir, "log"))
			a.t.Fatalf("Consul is not ready: %d nodes, %v\n%s", len(nodes), err, log)
		}
		time.Sleep(50 * time.Millisecond) // another process starts
	}
}

// kill kills the agent's process with SIGKILL.
func (a *agent) kill() {
	if a.cmd == nil {
		return
	}
	_ = a.cmd.Process.Kill()
	_ = a.cmd.Wait()
	a.cmd = nil
}

// wipe removes what the agent has stored.
func (a *agent) wipe() {
	if err := os.RemoveAll(a.data()); err != nil {
		a.t.Fatal(err)
	}
}

// fill adds the given number of entries of 120 kB to the agent's log.
func (a *agent) fill(entries int) {
	a.t.Helper()
	value := make([]byte, 2000)
	for i := range entries {
		var sets api.KVTxnOps
		for k := range 60 {
			sets = append(sets, &api.KVTxnOp{Verb: api.KVSet, Key: fmt.Sprintf("fill/%d/%d", i, k), Value: value})
		}
		if ok, answer, _, err := a.api.KV().Txn(sets, nil); err != nil || !ok {
			a.t.Fatalf("Consul takes no values: %v, %+v", err, answer)
		}
	}
}

// pause stops the process until the function that it returns is called.
func (a *agent) pause() (resume func()) {
	_ = a.cmd.Process.Signal(syscall.SIGSTOP)
	return func() { _ = a.cmd.Process.Signal(syscall.SIGCONT) }
}

// target names a list of the agent.
func (a *agent) target(path string) string { return "consul://" + a.addr + path }
