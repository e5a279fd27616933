//go:build integration

package registries_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/rpc"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/rcrowley/go-metrics"

	"github.com/tandem-rpc/tandem/compat/rpcx"
	"github.com/tandem-rpc/tandem/compat/rpcx/registries"
	"github.com/tandem-rpc/tandem/registry/registrytest"
)

const patience = time.Minute

// lockedBuffer collects the output of a process. It is safe for concurrent use.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// run runs a registry's server until the test ends, and waits until it responds.
func run(t *testing.T, address, ask, answer string, argv ...string) {
	t.Helper()
	path, err := exec.LookPath(argv[0])
	if err != nil {
		t.Fatalf("run registry/install.sh: %v", err)
	}
	said := new(lockedBuffer)
	cmd := exec.Command(path, argv[1:]...)
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) { // another process is starting
		if answers(address, ask, answer) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s does not answer: %s", argv[0], said)
		}
	}
}

func answers(address, ask, want string) bool {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return false
	}
	defer c.Close()
	if c.SetDeadline(time.Now().Add(time.Second)) != nil {
		return false
	}
	fmt.Fprint(c, ask)
	said, _ := io.ReadAll(c)
	return bytes.Contains(said, []byte(want))
}

// kind is a running registry of one kind.
type kind struct {
	plugin   func(address string, m metrics.Registry) any
	selector func(service string) selector
}

type selector interface {
	rpcx.CoreSelector
	io.Closer
}

func startEtcd(t *testing.T) kind {
	t.Helper()
	ports := []int{registrytest.FreePort(t), registrytest.FreePort(t)}
	at, peer := fmt.Sprintf("http://127.0.0.1:%d", ports[0]), fmt.Sprintf("http://127.0.0.1:%d", ports[1])
	run(t, at[len("http://"):], "GET /health HTTP/1.0\r\n\r\n", `"true"`, "etcd", "--data-dir", t.TempDir(), "--name", "test",
		"--listen-client-urls", at, "--advertise-client-urls", at, "--listen-peer-urls", peer,
		"--initial-advertise-peer-urls", peer, "--initial-cluster", "test="+peer, "--unsafe-no-fsync")
	return kind{
		func(address string, m metrics.Registry) any {
			return &registries.EtcdRegisterPlugin{ServiceAddress: address, EtcdServers: []string{at}, BasePath: "/rpcx", Metrics: m, Services: make([]string, 1), UpdateInterval: time.Minute}
		},
		func(service string) selector {
			return registries.NewEtcdClientSelector([]string{at}, "/rpcx/"+service, time.Minute, rpcx.RoundRobin, time.Minute)
		},
	}
}

func startZooKeeper(t *testing.T) kind {
	t.Helper()
	dir, port := t.TempDir(), registrytest.FreePort(t)
	config := filepath.Join(dir, "zoo.cfg")
	text := fmt.Sprintf("dataDir=%s\nclientPort=%d\nclientPortAddress=127.0.0.1\ntickTime=500\nadmin.enableServer=false\n", dir, port)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	at := fmt.Sprintf("127.0.0.1:%d", port)
	run(t, at, "srvr", "Mode: standalone", "java", "-Xmx96m", "-cp", "/usr/share/java/zookeeper.jar", "org.apache.zookeeper.server.quorum.QuorumPeerMain", config)
	return kind{
		func(address string, m metrics.Registry) any {
			return &registries.ZooKeeperRegisterPlugin{ServiceAddress: address, ZooKeeperServers: []string{at}, BasePath: "/rpcx", Metrics: m, Services: make([]string, 1), UpdateInterval: time.Minute}
		},
		func(service string) selector {
			return registries.NewZooKeeperClientSelector([]string{at}, "/rpcx/"+service, time.Minute, rpcx.RoundRobin, time.Minute)
		},
	}
}

func startConsul(t *testing.T) kind {
	t.Helper()
	binary := os.Getenv("CONSUL")
	if binary == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		binary = filepath.Join(cache, "tandem", "consul-1.13.9", "consul")
	}
	ports := []int{registrytest.FreePort(t), registrytest.FreePort(t), registrytest.FreePort(t)}
	at := fmt.Sprintf("127.0.0.1:%d", ports[0])
	run(t, at, "GET /v1/status/leader HTTP/1.0\r\n\r\n", `"127.0.0.1:`, binary, "agent", "-dev", "-bind", "127.0.0.1",
		"-http-port", fmt.Sprint(ports[0]), "-server-port", fmt.Sprint(ports[1]), "-serf-lan-port", fmt.Sprint(ports[2]),
		"-serf-wan-port", "-1", "-dns-port", "-1", "-grpc-port", "-1")
	return kind{
		func(address string, m metrics.Registry) any {
			return &registries.ConsulRegisterPlugin{ServiceAddress: address, ConsulAddress: at, Metrics: m, UpdateInterval: time.Minute}
		},
		func(service string) selector {
			return registries.NewConsulClientSelector(at, service, time.Minute, rpcx.RoundRobin, time.Minute)
		},
	}
}

type Args struct{ A, B int }

type Reply struct{ C int }

// Arith multiplies, and multiplies the result by its own value.
type Arith int

func (t Arith) Mul(args *Args, reply *Reply) error {
	reply.C = args.A * args.B * int(t)
	return nil
}

// start starts a server that lists itself.
func start(t *testing.T, k kind, times int, m metrics.Registry) *rpcx.Server {
	t.Helper()
	srv := rpcx.NewServer()
	address := registrytest.FreeAddress(t)
	if err := errors.Join(srv.RegisterName("Before", Arith(times)), srv.PluginContainer.Add(k.plugin("tcp@"+address, m)), srv.RegisterName("Arith", Arith(times)), srv.Start("tcp", address)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	if err := srv.RegisterName("After", Arith(times)); err != nil {
		t.Fatal(err)
	}
	return srv
}

// TestReal runs with real registries. Services that were registered before the plugin was
// added, after that, and while the server serves are all found. Both servers get calls, also
// from net/rpc's clients, which Select returns, and a server that is closed gets none.
func TestReal(t *testing.T) {
	for name, run := range map[string]func(*testing.T) kind{"etcd": startEtcd, "ZooKeeper": startZooKeeper, "Consul": startConsul} {
		t.Run(name, func(t *testing.T) {
			k := run(t)
			counted := metrics.NewRegistry()
			one, _ := start(t, k, 1, counted), start(t, k, 10, nil)
			for _, service := range []string{"Before", "Arith", "After"} {
				s := k.selector(service)
				defer s.Close()
				untilBoth(t, s, service)
			}
			if n := metrics.GetOrRegisterCounter("calls", counted).Count(); n == 0 {
				t.Error("no calls were counted")
			}
			s := k.selector("Arith")
			defer s.Close()
			c, err := s.Select(nil)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			var reply Reply
			if err := c.Call("Arith.Mul", &Args{7, 8}, &reply); err != nil || reply.C != 56 && reply.C != 560 {
				t.Errorf("%v, %v", reply, err)
			}
			if err := one.Close(); err != nil {
				t.Error(err)
			}
			untilOnly(t, s, 560)
			own := rpcx.NewClient(owned{s})
			defer own.Close()
			if err := own.Call("Arith.Mul", &Args{7, 8}, &reply); err != nil || reply.C != 560 {
				t.Errorf("a selector of the program's own round ours: %v, %v", reply, err)
			}
		})
	}
}

// owned is a program's own selector, which uses one of this module.
type owned struct{ s selector }

func (o owned) Select(f rpcx.ClientCodecFunc) (*rpc.Client, error) { return o.s.Select(f) }

func mul(s rpcx.ClientSelector, service string) (int, error) {
	c := rpcx.NewClient(s)
	defer c.Close()
	c.FailMode = rpcx.Failover
	var reply Reply
	err := c.Call(service+".Mul", &Args{7, 8}, &reply)
	return reply.C, err
}

// untilBoth calls until both servers have responded.
func untilBoth(t *testing.T, s rpcx.ClientSelector, service string) {
	t.Helper()
	seen := map[int]bool{}
	for end := time.Now().Add(patience); len(seen) < 2; time.Sleep(10 * time.Millisecond) { // until the registry has listed both
		c, err := mul(s, service)
		if err == nil {
			seen[c] = true
		}
		if time.Now().After(end) {
			t.Fatalf("%s: only %v, %v", service, seen, err)
		}
	}
}

// untilOnly calls until the result was want ten times in a row.
func untilOnly(t *testing.T, s rpcx.ClientSelector, want int) {
	t.Helper()
	row := 0
	for end := time.Now().Add(patience); row < 10; time.Sleep(10 * time.Millisecond) { // until the registry has announced it
		row++
		if c, err := mul(s, "Arith"); err != nil || c != want {
			row = 0
		}
		if time.Now().After(end) {
			t.Fatal("the server that has left gets calls")
		}
	}
}
