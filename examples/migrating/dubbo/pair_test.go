//go:build integration

package dubbo_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/examples/migrating/dubbo/after"
	"github.com/tandem-rpc/tandem/registry/registrytest"
)

// patience is how long a program in Java may take, also on a busy machine.
const patience = 2 * time.Minute

// host is a name for 127.0.0.1, as Dubbo would replace that address by the one of a network
// interface.
const host = "greeter.test"

// TestPair migrates the server first: the consumer that called the provider in Java calls the
// one in Go, and prints the same.
func TestPair(t *testing.T) {
	j := compile(t)
	old := j.provide(t)
	fresh := serve(t)
	for name, port := range map[string]int{"before": old, "the server first": fresh} {
		said := j.consume(t, "tri://"+net.JoinHostPort(host, strconv.Itoa(port))+"/demo.Greeter")
		want := "Hello, tandem\n{Ann=Hello, Ann, Zoë=Hello, Zoë}\nfailed: "
		if !strings.HasPrefix(said, want) || !strings.Contains(said[len(want):], "nobody to greet") {
			t.Errorf("%s: the consumer says %q", name, said)
		}
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(fresh))
	if said, err := after.Hello(address, "tandem"); err != nil || said != "Hello, tandem" {
		t.Errorf("after: %q, %v", said, err)
	}
	if _, err := after.Hello(address, ""); err == nil || !strings.Contains(err.Error(), "nobody to greet") {
		t.Errorf("after: %v", err)
	}
}

// serve runs the server in Go until the test ends, and returns its port.
func serve(t *testing.T) int {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan error, 1)
	go func() { over <- after.Serve(ln) }()
	t.Cleanup(func() {
		_ = ln.Close()
		<-over
	})
	return ln.Addr().(*net.TCPAddr).Port
}

// java has the folder of the compiled Java programs, and Dubbo's jars.
type java struct{ home, jars string }

// compile compiles the Java programs against Dubbo's jars, which make test-triple downloads.
func compile(t *testing.T) java {
	t.Helper()
	j := java{t.TempDir(), os.Getenv("DUBBO")}
	if j.jars == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		j.jars = filepath.Join(cache, "tandem", "dubbo-3.3.6")
	}
	j.jars = filepath.Join(j.jars, "*")
	own, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(j.hosts(), []byte("127.0.0.1 localhost "+host+" "+own+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	sources, err := filepath.Glob("before/*.java")
	if err != nil || len(sources) == 0 {
		t.Fatal("no sources: ", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	argv := append([]string{"-nowarn", "-proc:none", "-encoding", "UTF-8", "-cp", j.jars, "-d", j.home}, sources...)
	if said, err := exec.CommandContext(ctx, "javac", argv...).CombinedOutput(); err != nil {
		t.Fatalf("%v, run make test-triple:\n%s", err, said)
	}
	return j
}

func (j java) hosts() string { return filepath.Join(j.home, "hosts") }

// command returns a command for a program. Its log is shown if the test fails.
func (j java) command(ctx context.Context, t *testing.T, class string, args ...string) *exec.Cmd {
	argv := append([]string{
		"-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dstdout.encoding=UTF-8",
		"-Djdk.net.hosts.file=" + j.hosts(), "-Duser.home=" + j.home, "-cp", j.home + ":" + j.jars, "demo." + class,
	}, args...)
	cmd := exec.CommandContext(ctx, "java", argv...)
	cmd.WaitDelay = time.Second
	var log bytes.Buffer
	cmd.Stderr = &log
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the %s logged:\n%s", class, log.String())
		}
	})
	return cmd
}

// provide runs the provider until the test ends, and returns its port.
func (j java) provide(t *testing.T) int {
	t.Helper()
	port := registrytest.FreePort(t)
	ctx, cancel := context.WithCancel(context.Background())
	cmd := j.command(ctx, t, "Provider", host, strconv.Itoa(port))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(patience, cancel)
	t.Cleanup(func() {
		_ = in.Close() // which ends the provider
		_ = cmd.Wait()
		timer.Stop()
		cancel()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "serving" {
		t.Log(lines.Text())
	}
	if lines.Text() != "serving" {
		t.Fatal("the provider does not serve")
	}
	go func() { _, _ = io.Copy(io.Discard, out) }() // it ends with the provider
	return port
}

// consume runs the consumer, and returns its output.
func (j java) consume(t *testing.T, url string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	said, err := j.command(ctx, t, "Consumer", url).Output()
	if err != nil {
		t.Errorf("the consumer of %s: %v", url, err)
	}
	return string(said)
}
