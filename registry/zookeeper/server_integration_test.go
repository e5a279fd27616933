//go:build integration

package zookeeper

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/tandem-rpc/tandem/registry/registrytest"
)

// jars is the class path of Debian's server; its manifest lacks the jars that TLS needs.
const jars = "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar:/usr/share/java/netty-codec.jar:/usr/share/java/netty-resolver.jar:" +
	"/usr/share/java/netty-transport-native-unix-common.jar"

// server is a ZooKeeper server in its own process.
type server struct {
	t        testing.TB
	dir      string
	settings []string
	port     int
	cmd      *exec.Cmd
	exited   chan struct{} // the process has ended
	log      lockedBuffer
}

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

// startServer starts a server with an empty data directory. Settings are further
// lines of its configuration.
func startServer(t testing.TB, settings ...string) *server {
	t.Helper()
	s := &server{t: t, dir: t.TempDir(), settings: settings}
	if _, err := os.Stat(strings.Split(jars, ":")[0]); err != nil {
		t.Fatalf("%v; install Debian's zookeeper: registry/install.sh", err)
	}
	t.Cleanup(func() {
		s.kill()
		if t.Failed() {
			t.Logf("what the server said:\n%s", s.log.String())
		}
	})
	for range 5 { // another process may take the port first
		s.port = registrytest.FreePort(t)
		if s.run() {
			return s
		}
	}
	t.Fatalf("the server does not start:\n%s", s.log.String())
	return nil
}

// configure writes the server's configuration. A tick of 100 ms lets sessions be as
// short as 200 ms.
func (s *server) configure() {
	config := append([]string{
		"tickTime=100", "minSessionTimeout=200", "maxSessionTimeout=20000", "maxClientCnxns=0",
		"dataDir=" + filepath.Join(s.dir, "data"), "clientPortAddress=127.0.0.1",
		fmt.Sprintf("clientPort=%d", s.port),
		"admin.enableServer=false", "4lw.commands.whitelist=srvr,envi",
	}, s.settings...)
	if err := os.WriteFile(filepath.Join(s.dir, "zoo.cfg"), []byte(strings.Join(config, "\n")+"\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// start runs the server again, with its data directory as it is.
func (s *server) start() {
	s.t.Helper()
	if !s.run() {
		s.t.Fatalf("the server does not start again:\n%s", s.log.String())
	}
}

// run starts the process and waits until it serves. It reports whether it does.
func (s *server) run() bool {
	s.t.Helper()
	s.launch()
	return s.await()
}

// launch starts the process.
func (s *server) launch() {
	s.t.Helper()
	s.configure()
	// No sync to disk is needed: tests kill only the process, never the machine.
	s.cmd = exec.Command("java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dzookeeper.forceSync=no",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
		"-cp", jars, "org.apache.zookeeper.server.quorum.QuorumPeerMain", filepath.Join(s.dir, "zoo.cfg"))
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = s.dir, &s.log, &s.log
	if err := s.cmd.Start(); err != nil {
		s.t.Fatalf("%v; install default-jre-headless: registry/install.sh", err)
	}
	exited := make(chan struct{})
	s.exited = exited
	go func() {
		defer close(exited)
		s.cmd.Wait()
	}()
}

// await waits until the server serves, and reports whether it does.
func (s *server) await() bool {
	deadline := time.After(30 * time.Second)
	for !s.serves() {
		select {
		case <-s.exited:
			return false
		case <-deadline:
			return false
		case <-time.After(20 * time.Millisecond): // the server does not signal that it is ready
		}
	}
	return true
}

// serves reports whether the server, and not another one at its port, serves clients.
func (s *server) serves() bool {
	return strings.Contains(s.ask("srvr"), "Mode:") && strings.Contains(s.ask("envi"), "user.dir="+s.dir+"\n")
}

// ask sends one of the four-letter commands and returns the response, "" if it fails.
func (s *server) ask(command string) string {
	conn, err := net.DialTimeout("tcp", s.address(), time.Second)
	if err != nil {
		return ""
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Second))
	io.WriteString(conn, command)
	answer, _ := io.ReadAll(conn)
	return string(answer)
}

func (s *server) address() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// kill ends the process as kill -9 does. Its data stay.
func (s *server) kill() {
	if s.exited == nil {
		return // it could not be started
	}
	s.cmd.Process.Kill()
	<-s.exited
}

// wipe deletes the data of a killed server.
func (s *server) wipe() {
	if err := os.RemoveAll(filepath.Join(s.dir, "data")); err != nil {
		s.t.Fatal(err)
	}
}

// freeze stops the process; thaw continues it.
func (s *server) freeze() error { return s.cmd.Process.Signal(syscall.SIGSTOP) }
func (s *server) thaw() error   { return s.cmd.Process.Signal(syscall.SIGCONT) }

// connect returns a session that is not ours, with which tests change nodes.
func (s *server) connect(t testing.TB) *zk.Conn {
	t.Helper()
	// A server that has just started may accept a connection and never respond.
	dial := func(network, address string, timeout time.Duration) (net.Conn, error) {
		conn, err := net.DialTimeout(network, address, timeout)
		return &socket{Conn: conn, patience: 5 * time.Second}, err
	}
	conn, events, err := zk.Connect([]string{s.address()}, 20*time.Second,
		zk.WithDialer(dial), zk.WithLogInfo(false), zk.WithLogger(chatter{discard}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		for range events { // until it has ended
		}
	})
	return conn
}
