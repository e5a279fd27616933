package rpcx

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	etcdclient "github.com/rpcxio/rpcx-etcd/client"
	etcdplugin "github.com/rpcxio/rpcx-etcd/serverplugin"
	zkclient "github.com/rpcxio/rpcx-zookeeper/client"
	zkplugin "github.com/rpcxio/rpcx-zookeeper/serverplugin"
	"github.com/smallnest/rpcx/client"
	"github.com/smallnest/rpcx/server"

	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/etcd"
	"github.com/tandem-rpc/tandem/registry/registrytest"
	"github.com/tandem-rpc/tandem/registry/zookeeper"
)

// refresh is how often rpcx's plugins write their entries.
const refresh = 500 * time.Millisecond

// kind is a registry for which both rpcx and tandem have a client.
type kind struct {
	name     string
	start    func(t *testing.T) *backend
	open     func(t *testing.T, b *backend) both
	discover func(b *backend) (client.ServiceDiscovery, error)
	plugin   func(t *testing.T, b *backend, address string) server.Plugin
}

// both is a tandem registry, as registrar and resolver.
type both interface {
	registry.Registrar
	registry.Resolver
	Close() error
}

var kinds = []kind{
	{
		name: "etcd", start: startEtcd,
		open: func(t *testing.T, b *backend) both { return opened(t, b, etcd.New) },
		discover: func(b *backend) (client.ServiceDiscovery, error) {
			return etcdclient.NewEtcdV3Discovery(base, service, []string{b.address}, true, nil)
		},
		plugin: func(t *testing.T, b *backend, address string) server.Plugin {
			p := &etcdplugin.EtcdV3RegisterPlugin{
				ServiceAddress: address, EtcdServers: []string{b.address}, BasePath: base, UpdateInterval: refresh,
			}
			return started(t, p)
		},
	},
	{
		name: "zookeeper", start: startZooKeeper,
		open: func(t *testing.T, b *backend) both { return opened(t, b, zookeeper.New) },
		discover: func(b *backend) (client.ServiceDiscovery, error) {
			return zkclient.NewZookeeperDiscovery(base, service, []string{b.address}, nil)
		},
		plugin: func(t *testing.T, b *backend, address string) server.Plugin {
			p := &zkplugin.ZooKeeperRegisterPlugin{
				ServiceAddress: address, ZooKeeperServers: []string{b.address}, BasePath: base, UpdateInterval: refresh,
			}
			return started(t, p)
		},
	},
}

// opened opens tandem's registry, and closes it when the test ends.
func opened[R both, O any](t *testing.T, b *backend, open func(string, ...O) (R, error)) both {
	t.Helper()
	r, err := open(b.target())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// started starts rpcx's plugin, and stops it when the test ends.
func started[P interface {
	server.Plugin
	Start() error
	Stop() error
}](t *testing.T, p P) P {
	t.Helper()
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Stop() })
	return p
}

// backend is a registry's server, a process that ends with the test.
type backend struct {
	scheme, address  string
	question, answer string // request that asks whether the server is ready, and part of the response if it is
}

// target names the directory that rpcx's clients and servers use, too.
func (b *backend) target() string {
	return fmt.Sprintf("%s://%s%s/%s?layout=rpcx&ttl=%v", b.scheme, b.address, base, service, ttl)
}

func startEtcd(t *testing.T) *backend {
	t.Helper()
	b := &backend{"etcd", registrytest.FreeAddress(t), "GET /health HTTP/1.0\r\n\r\n", `"true"`}
	peer := "http://" + registrytest.FreeAddress(t)
	b.run(t, "etcd-server", "etcd", "--data-dir", t.TempDir(), "--name", "rpcx", "--log-level", "error", "--unsafe-no-fsync",
		"--listen-client-urls", "http://"+b.address, "--advertise-client-urls", "http://"+b.address,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "rpcx="+peer)
	return b
}

func startZooKeeper(t *testing.T) *backend {
	t.Helper()
	b := &backend{"zookeeper", registrytest.FreeAddress(t), "srvr", "Mode: standalone"}
	_, port, _ := net.SplitHostPort(b.address)
	dir := t.TempDir()
	config := filepath.Join(dir, "zoo.cfg")
	text := fmt.Sprintf("dataDir=%s\nclientPort=%s\nclientPortAddress=127.0.0.1\ntickTime=500\nadmin.enableServer=false\n", dir, port)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	b.run(t, "zookeeper", "java", "-Xmx96m", "-cp", "/usr/share/java/zookeeper.jar",
		"org.apache.zookeeper.server.quorum.QuorumPeerMain", config)
	return b
}

// run starts the server and waits until it is ready.
func (b *backend) run(t *testing.T, debianPackage, program string, args ...string) {
	t.Helper()
	cmd := exec.Command(program, args...)
	if err := cmd.Start(); err != nil {
		t.Fatalf("the tests need Debian's %s, see registry/install.sh: %v", debianPackage, err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	for end := time.Now().Add(time.Minute); !b.ready(); time.Sleep(20 * time.Millisecond) { // another process can't be waited for otherwise
		if time.Now().After(end) {
			t.Fatalf("%s does not answer at %s", program, b.address)
		}
	}
}

// ready asks the server whether it is ready.
func (b *backend) ready() bool {
	conn, err := net.DialTimeout("tcp", b.address, time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return false
	}
	fmt.Fprint(conn, b.question)
	answer, _ := io.ReadAll(conn)
	return strings.Contains(string(answer), b.answer)
}
