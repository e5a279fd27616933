//go:build integration

package seeds

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/compat/rpcx"
	"github.com/tandem-rpc/tandem/compat/rpcx/registries"
)

// Args and Reply are the types of the programs.
type Args struct{ A, B int }

type Reply struct{ C int }

// TestRegistries runs the programs with plugins for registries, with real registries at the
// programs' addresses: a selector finds the programs' service.
func TestRegistries(t *testing.T) {
	t.Run("etcd", func(t *testing.T) {
		const at = "http://127.0.0.1:2379"
		serve(t, "127.0.0.1:2379", "etcd", "--data-dir", t.TempDir(), "--listen-client-urls", at, "--advertise-client-urls", at)
		start(t, "registry/etcd", "127.0.0.1:1234")
		found(t, registries.NewEtcdClientSelector([]string{at}, "/rpcx/Arith", time.Minute, rpcx.RandomSelect, time.Minute))
	})
	t.Run("ZooKeeper", func(t *testing.T) {
		dir := t.TempDir()
		config := filepath.Join(dir, "zoo.cfg")
		text := fmt.Sprintf("dataDir=%s\nclientPort=2181\nclientPortAddress=127.0.0.1\ntickTime=500\nadmin.enableServer=false\n", dir)
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		serve(t, "127.0.0.1:2181", "java", "-Xmx96m", "-cp", "/usr/share/java/zookeeper.jar", "org.apache.zookeeper.server.quorum.QuorumPeerMain", config)
		start(t, "registry/zookeeper", "127.0.0.1:1234")
		found(t, registries.NewZooKeeperClientSelector([]string{"127.0.0.1:2181"}, "/rpcx/Arith", time.Minute, rpcx.RandomSelect, time.Minute))
	})
}

// serve runs a registry's server until the test ends, and waits until it listens.
func serve(t *testing.T, address, program string, args ...string) {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Fatalf("run registry/install.sh: %v", err)
	}
	said := new(lockedBuffer)
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	awaitListener(t, address, func() {})
}

// found calls the service that the registry lists until a call succeeds.
func found(t *testing.T, s rpcx.ClientSelector) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) { // until the registry has listed the program
		client := rpcx.NewClient(s)
		var reply Reply
		err := client.Call("Arith.Mul", &Args{7, 8}, &reply)
		_ = client.Close()
		if err == nil && reply.C == 56 {
			return
		}
		if time.Now().After(end) {
			t.Fatal(reply, err)
		}
	}
}
