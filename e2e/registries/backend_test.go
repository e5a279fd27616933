//go:build integration

package registries

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/registry/registrytest"
)

// backend is a registry's server: a process that a test can kill and start again with
// the same data, on the same port.
type backend struct {
	t      *testing.T
	port   int
	target string // target of the list
	argv   []string
	ask    string    // request that asks whether the server is ready
	answer string    // part of the response of a ready server
	cmd    *exec.Cmd // nil while it is down
}

// backends has a function for each registry that starts its server.
var backends = map[string]func(t *testing.T) *backend{"etcd": startEtcd, "zookeeper": startZooKeeper}

func startEtcd(t *testing.T) *backend {
	t.Helper()
	port, peer := registrytest.FreePort(t), registrytest.FreePort(t)
	client, other := fmt.Sprintf("http://127.0.0.1:%d", port), fmt.Sprintf("http://127.0.0.1:%d", peer)
	b := &backend{
		t: t, port: port, target: fmt.Sprintf("etcd://127.0.0.1:%d/tandem/who", port),
		argv: []string{
			program(t, "etcd", "etcd-server"), "--data-dir", t.TempDir(), "--name", "e2e",
			"--listen-client-urls", client, "--advertise-client-urls", client,
			"--listen-peer-urls", other, "--initial-advertise-peer-urls", other, "--initial-cluster", "e2e=" + other,
		},
		ask: "GET /health HTTP/1.0\r\n\r\n", answer: `"true"`,
	}
	b.start()
	return b
}

func startZooKeeper(t *testing.T) *backend {
	t.Helper()
	const jar = "/usr/share/java/zookeeper.jar"
	if _, err := os.Stat(jar); err != nil {
		t.Fatalf("please install zookeeper: %v", err)
	}
	dir, port := t.TempDir(), registrytest.FreePort(t)
	config := filepath.Join(dir, "zoo.cfg")
	text := fmt.Sprintf("dataDir=%s\nclientPort=%d\nclientPortAddress=127.0.0.1\ntickTime=500\nmaxClientCnxns=0\nadmin.enableServer=false\n", dir, port)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	b := &backend{
		t: t, port: port, target: fmt.Sprintf("zookeeper://127.0.0.1:%d/tandem/who", port),
		argv: []string{
			program(t, "java", "default-jre-headless"), "-Xmx96m", "-cp", jar,
			"org.apache.zookeeper.server.quorum.QuorumPeerMain", config,
		},
		ask: "srvr", answer: "Mode: standalone",
	}
	b.start()
	return b
}

// program returns the path of a program, and fails the test if it is not installed.
func program(t *testing.T, name, debianPackage string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("please install %s: %v", debianPackage, err)
	}
	return path
}

// start runs the server and waits until it is ready. It is killed when the test ends.
func (b *backend) start() {
	b.t.Helper()
	b.cmd = exec.Command(b.argv[0], b.argv[1:]...)
	log, err := os.Create(filepath.Join(b.t.TempDir(), "log"))
	if err != nil {
		b.t.Fatal(err)
	}
	defer log.Close()
	b.cmd.Stdout, b.cmd.Stderr = log, log
	if err := b.cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(b.kill)
	within(b.t, time.Minute, "the registry is ready", b.ready)
}

// ready returns nil when the server is ready, and otherwise why it is not.
func (b *backend) ready() error {
	conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", b.port), time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, b.ask); err != nil {
		return err
	}
	answer, err := io.ReadAll(conn)
	if !strings.Contains(string(answer), b.answer) {
		return errors.Join(fmt.Errorf("it answers %q", answer), err)
	}
	return nil
}

// kill kills the server with SIGKILL, if it runs.
func (b *backend) kill() {
	if b.cmd == nil {
		return
	}
	_ = b.cmd.Process.Kill()
	_ = b.cmd.Wait() // the error only says that it was killed
	b.cmd = nil
}

// within polls a condition until it returns nil, and returns how long that took. The test
// fails after limit.
func within(t *testing.T, limit time.Duration, what string, holds func() error) time.Duration {
	t.Helper()
	began := time.Now()
	for {
		err := holds()
		took := time.Since(began)
		if err == nil {
			return took
		}
		if took > limit {
			t.Fatalf("%s: not within %v: %v", what, limit, err)
		}
		time.Sleep(20 * time.Millisecond) // polls a condition
	}
}
