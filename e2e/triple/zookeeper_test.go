//go:build integration

package triple

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/registrytest"
	"github.com/tandem-rpc/tandem/registry/zookeeper"
	"github.com/tandem-rpc/tandem/server"
)

// zooKeeperJar is Debian's jar, which refers to the others that it needs.
const zooKeeperJar = "/usr/share/java/zookeeper.jar"

// startZooKeeper runs a ZooKeeper until the test ends, and returns its address.
func startZooKeeper(t *testing.T) string {
	t.Helper()
	dir, address := t.TempDir(), registrytest.FreeAddress(t)
	config := filepath.Join(dir, "zoo.cfg")
	_, port, _ := net.SplitHostPort(address)
	text := fmt.Sprintf("dataDir=%s\nclientPort=%s\nclientPortAddress=127.0.0.1\ntickTime=1000\nadmin.enableServer=false\n", dir, port)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "java", "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dzookeeper.forceSync=no",
		"-cp", zooKeeperJar, "org.apache.zookeeper.server.quorum.QuorumPeerMain", config)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			t.Logf("ZooKeeper said:\n%s", log.String())
		}
	})
	for deadline := time.Now().Add(patience); !isServed(address); {
		if time.Now().After(deadline) {
			t.Fatal("ZooKeeper does not serve")
		}
		time.Sleep(20 * time.Millisecond) // another process has no event to wait for
	}
	return address
}

// isServed reports whether a ZooKeeper server answers.
func isServed(address string) bool {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	_, _ = io.WriteString(conn, "srvr")
	answer, _ := io.ReadAll(conn)
	return strings.Contains(string(answer), "Mode:")
}

func placeOf(zk, service string) string {
	return "zookeeper://" + zk + "/dubbo/" + service + "?layout=dubbo"
}

// awaitListed waits until a provider of a service is listed: a consumer that begins
// earlier fails at once.
func awaitListed(t *testing.T, zk, service string) {
	t.Helper()
	target, err := registry.ParseTarget(placeOf(zk, service))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	found := false
	_ = zookeeper.Resolver().Watch(ctx, target, func(s registry.Snapshot) {
		if len(s.Instances) > 0 {
			found = true
			cancel()
		}
	})
	if !found {
		t.Fatalf("%s is not listed", service)
	}
}

// listed registers a server in the form of Dubbo's providers.
func listed(t *testing.T, zk, service, address string) server.Option {
	t.Helper()
	r, err := zookeeper.New(placeOf(zk, service))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return server.WithRegistrar(r, tandem.Instance{
		Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: address, Protocol: "grpc"}},
	})
}
