//go:build integration

package zookeeper

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
)

// dubbo is a process with Dubbo's own registry: testdata/dubbo/Dubbo.java.
type dubbo struct {
	t       testing.TB // the running subtest
	orders  io.Writer
	answers chan string
}

// dubboJars returns the folder of Dubbo's jars, which testdata/dubbo/build.sh downloads.
func dubboJars(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("DUBBO")
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		dir = filepath.Join(cache, "tandem", "dubbo-3.3.6")
	}
	if jars, _ := filepath.Glob(filepath.Join(dir, "dubbo-3*.jar")); len(jars) == 0 {
		t.Fatalf("no jar of Dubbo in %s; get them: registry/zookeeper/testdata/dubbo/build.sh", dir)
	}
	return dir
}

// startDubbo runs the process until the test ends. Java compiles Dubbo.java at start,
// which needs a JDK. A hosts file maps the names *.test to this machine, as Dubbo would
// replace 127.0.0.1 by the address of a network interface.
func startDubbo(t testing.TB, s *server) *dubbo {
	t.Helper()
	home := t.TempDir()
	hosts := filepath.Join(home, "hosts")
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(hosts, []byte("127.0.0.1 localhost one.test two.test "+host+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("java", "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djdk.net.hosts.file="+hosts, "-Duser.home="+home,
		"-Ddubbo.application.service-discovery.migration=FORCE_INTERFACE",
		"-cp", filepath.Join(dubboJars(t), "*"), "testdata/dubbo/Dubbo.java", "zookeeper://"+s.address()+"?delay-notification=50")
	d := &dubbo{t: t, answers: make(chan string, 100)}
	var log lockedBuffer
	cmd.Stderr = &log
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v; install default-jdk-headless: registry/zookeeper/testdata/dubbo/build.sh", err)
	}
	d.orders = in
	read := make(chan struct{})
	go d.read(out, read)
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-read
		cmd.Wait()
		if t.Failed() {
			t.Logf("what Dubbo said:\n%s", log.String())
		}
	})
	d.says(time.Minute, "ready")
	return d
}

func (d *dubbo) read(out io.Reader, ended chan<- struct{}) {
	defer close(ended)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		d.answers <- lines.Text()
	}
	close(d.answers)
}

func (d *dubbo) orderf(format string, args ...any) {
	d.t.Helper()
	if _, err := fmt.Fprintf(d.orders, format+"\n", args...); err != nil {
		d.t.Fatal(err)
	}
}

// says waits for a line of the process, and skips other lines before it.
func (d *dubbo) says(within time.Duration, want string) {
	d.t.Helper()
	timeout := time.After(within)
	last := "nothing"
	for {
		select {
		case line, ok := <-d.answers:
			if !ok {
				d.t.Fatalf("Dubbo has ended; it said %q, want %q", last, want)
			}
			if last = line; line == want {
				return
			}
		case <-timeout:
			d.t.Fatalf("after %v Dubbo says %q, want %q", within, last, want)
		}
	}
}

// lists polls the invokers of a consumer until they are those in want.
func (d *dubbo) lists(key string, want ...string) {
	d.t.Helper()
	line, last := strings.Join(append([]string{"invokers"}, want...), " "), ""
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) { // Dubbo does not announce them
		d.orderf("list %s", key)
		for last = <-d.answers; strings.HasPrefix(last, "notified"); last = <-d.answers { // of an earlier change
		}
		if last == line {
			return
		}
	}
	d.t.Fatalf("Dubbo's consumer has %q, want %q", last, line)
}

// forDubbo returns an instance of the service greeter that Dubbo can call.
func forDubbo(host string, weight int) tandem.Instance {
	in := instance(host)
	in.Endpoints = []tandem.Endpoint{{Transport: "tcp", Address: host + ":1", Protocol: "grpc"}}
	in.Weight, in.Group, in.Version = weight, "blue", "1.0.0"
	return in
}

// inDubbo returns the text by which the process shows such an instance.
func inDubbo(host string, weight int) string {
	return fmt.Sprint("tri://", host, ":1/blue/", greeter, ":1.0.0?weight=", weight)
}

// TestDubbo3 lets Dubbo's own registry and ours use one ZooKeeper.
func TestDubbo3(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	d := startDubbo(t, s) // takes seconds, so the subtests share it
	where := "zookeeper://" + s.address() + "/dubbo/" + greeter + "?layout=dubbo&ttl=4s"
	r := open(t, where, logged(t))
	t.Run("it finds us", func(t *testing.T) { dubboFindsUs(t, d, r) })
	t.Run("we find it", func(t *testing.T) { weFindDubbo(t, d, r) })
}

// dubboFindsUs registers in Dubbo's layout. A Dubbo 3 consumer is notified when an
// instance is registered, updated and closed, and has the instances as invokers.
func dubboFindsUs(t *testing.T, d *dubbo, r *Registry) {
	d.t = t
	first := registerOne(t, r, forDubbo("one.test", 7))
	d.orderf("refer blue %s blue 1.0.0", greeter)
	d.orderf("refer green %s green 1.0.0", greeter)
	d.lists("blue", inDubbo("one.test", 7))
	d.lists("green")
	d.orderf("subscribe consumer://any.test/%[1]s?interface=%[1]s&category=providers&side=consumer&group=*&version=*", greeter)
	d.says(10*time.Second, "notified "+inDubbo("one.test", 7))
	if err := first.Update(t.Context(), forDubbo("one.test", 8)); err != nil {
		t.Fatal(err)
	}
	d.says(10*time.Second, "notified "+inDubbo("one.test", 8))
	second := registerOne(t, r, forDubbo("two.test", 9))
	d.says(10*time.Second, "notified "+inDubbo("one.test", 8)+" "+inDubbo("two.test", 9))
	d.lists("blue", inDubbo("one.test", 8), inDubbo("two.test", 9))
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	d.says(10*time.Second, "notified "+inDubbo("two.test", 9))
	d.lists("blue", inDubbo("two.test", 9))
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	d.says(10*time.Second, "notified")
}

// weFindDubbo registers a Dubbo 3 provider, which is found together with one of ours.
func weFindDubbo(t *testing.T, d *dubbo, r *Registry) {
	d.t = t
	w := watch(t, r, registry.Target{})
	registerOne(t, r, forDubbo("one.test", 7))
	w.sees(t, 1, 15*time.Second)
	provider := fmt.Sprintf("tri://two.test:1/%[1]s?interface=%[1]s&category=providers&side=provider&dynamic=true&methods=*"+
		"&application=theirs&group=blue&version=1.0.0&weight=9&timestamp=1700000000123", greeter)
	d.orderf("register %s", provider)
	w.await(t, "Dubbo's provider", 10*time.Second, func(snap registry.Snapshot) bool {
		return len(snap.Instances) == 2 && slices.ContainsFunc(snap.Instances, func(in tandem.Instance) bool {
			return in.Endpoints[0] == tandem.Endpoint{Transport: "tcp", Address: "two.test:1", Protocol: "grpc"} &&
				in.Weight == 9 && in.Group == "blue" && in.Version == "1.0.0" && in.Tags["application"] == "theirs" &&
				in.Started.UnixMilli() == 1700000000123
		})
	})
	d.orderf("unregister %s", provider)
	w.sees(t, 1, 10*time.Second)
}

// registerOne lists an instance until the test ends.
func registerOne(t *testing.T, r *Registry, in tandem.Instance) registry.Registration {
	t.Helper()
	entry, err := r.Register(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { entry.Close() })
	return entry
}
