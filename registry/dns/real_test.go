//go:build integration && linux

package dns_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/dns"
	"github.com/tandem-rpc/tandem/registry/registrytest"
)

// zone is a zone of an authoritative server, knot, behind a caching resolver, unbound.
type zone struct {
	t             testing.TB
	dir           string
	knot, unbound string // addresses with ports
	serial        int
	server, cache *exec.Cmd
}

const domain = "fleet.example"

// startZone starts both servers, which end with the test.
func startZone(t testing.TB, records ...string) *zone {
	t.Helper()
	z := &zone{t: t, dir: t.TempDir(), knot: registrytest.FreeAddress(t), unbound: registrytest.FreeAddress(t)}
	z.write("knot.conf", fmt.Sprintf("server:\n  listen: %s\n  rundir: %q\n  pidfile: %q\ndatabase:\n  storage: %q\nlog:\n  - target: stderr\n    any: warning\n"+
		"control:\n  listen: knot.sock\nzone:\n  - domain: %s\n    storage: %q\n    file: zone\n    zonefile-sync: -1\n    journal-content: none\n",
		strings.Replace(z.knot, ":", "@", 1), z.dir, z.dir+"/knot.pid", z.dir+"/db", domain, z.dir))
	z.write("unbound.conf", fmt.Sprintf("server:\n  interface: %s\n  do-daemonize: no\n  use-syslog: no\n  username: \"\"\n  chroot: \"\"\n  directory: %q\n  pidfile: \"\"\n"+
		"  do-not-query-localhost: no\n  module-config: \"iterator\"\n  num-threads: 1\n  infra-host-ttl: 1\n  cache-max-negative-ttl: 1\nremote-control:\n  control-enable: no\nstub-zone:\n  name: %s\n  stub-addr: %s\n",
		strings.Replace(z.unbound, ":", "@", 1), z.dir, domain, strings.Replace(z.knot, ":", "@", 1)))
	if err := os.Mkdir(filepath.Join(z.dir, "db"), 0o755); err != nil {
		t.Fatal(err)
	}
	z.writeZone(records)
	z.server = z.start("knotd", "-c", filepath.Join(z.dir, "knot.conf"))
	z.cache = z.start("unbound", "-c", filepath.Join(z.dir, "unbound.conf"))
	z.await(z.knot)
	z.await(z.unbound)
	return z
}

func (z *zone) write(file, text string) {
	z.t.Helper()
	if err := os.WriteFile(filepath.Join(z.dir, file), []byte(text), 0o644); err != nil {
		z.t.Fatal(err)
	}
}

func (z *zone) start(program string, args ...string) *exec.Cmd {
	z.t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		path = "/usr/sbin/" + program
	}
	cmd := exec.Command(path, args...)
	log, err := os.Create(filepath.Join(z.dir, program+".log"))
	if err != nil {
		z.t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		z.t.Fatalf("registry/install.sh installs %s: %v", program, err)
	}
	z.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGCONT)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

// await waits until a server answers for the zone.
func (z *zone) await(server string) {
	z.t.Helper()
	r := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server)
	}}
	for start := time.Now(); ; time.Sleep(50 * time.Millisecond) { // until the other program serves
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_, err := r.LookupNS(ctx, domain+".")
		cancel()
		if err == nil {
			return
		}
		if time.Since(start) > 20*time.Second {
			log, _ := exec.Command("tail", "-n5", z.dir+"/knotd.log", z.dir+"/unbound.log").Output()
			z.t.Fatalf("%s does not answer: %v\n%s", server, err, log)
		}
	}
}

// writeZone writes the zone with a new serial number.
func (z *zone) writeZone(records []string) {
	z.t.Helper()
	z.serial++
	z.write("zone", fmt.Sprintf("$ORIGIN %s.\n@ 1 SOA host admin %d 3600 600 86400 1\n@ 60 NS host\n%s\n", domain, z.serial, strings.Join(append(records, "host 60 A 127.0.0.1"), "\n")))
}

// set changes the records.
func (z *zone) set(records ...string) {
	z.t.Helper()
	z.writeZone(records)
	if out, err := exec.Command("/usr/sbin/knotc", "-b", "-s", filepath.Join(z.dir, "knot.sock"), "zone-reload", domain).CombinedOutput(); err != nil {
		z.t.Fatalf("knotc: %v: %s", err, out)
	}
}

// target returns a target of a name at a server.
func (z *zone) target(server, name string) string {
	return "dns://" + strings.Replace(name, "@", domain, 1) + "?server=" + server
}

func targetOf(t testing.TB, s string) registry.Target {
	t.Helper()
	target, err := registry.ParseTarget(s)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// idsOf returns the IDs of a list.
func idsOf(s registry.Snapshot) string {
	var list []string
	for _, in := range s.Instances {
		list = append(list, in.ID)
	}
	return strings.Join(list, " ")
}

// listAt returns the list at a target.
func listAt(t testing.TB, target string) ([]string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	list, err := registry.List(ctx, dns.Resolver(), targetOf(t, target))
	var lines []string
	for _, in := range list {
		lines = append(lines, fmt.Sprintf("%s %d", in.Endpoints[0].Address, in.Weight))
	}
	return lines, err
}

// TestRealRecords: A, AAAA and SRV records of both servers, of which 120 come over TCP, as they are
// too many for a packet; a name that does not exist is an error.
func TestRealRecords(t *testing.T) {
	records := []string{
		"two 60 A 192.0.2.1", "two 60 A 192.0.2.2", "two 60 AAAA 2001:db8::1", "six 60 AAAA 2001:db8::6", "alias 60 CNAME two",
		"_price._tcp 60 SRV 10 60 8001 a", "_price._tcp 60 SRV 10 20 8002 b", "_price._tcp 60 SRV 20 99 8003 c",
		"_none._tcp 60 SRV 0 0 0 .", "text 60 TXT x",
	}
	for i := range 120 {
		records = append(records, fmt.Sprintf("many 60 A 198.51.100.%d", i+1))
	}
	z := startZone(t, records...)
	for kind, server := range map[string]string{"knot": z.knot, "unbound": z.unbound} {
		for name, want := range map[string]string{
			"two.@:80":      "192.0.2.1:80 0, 192.0.2.2:80 0, [2001:db8::1]:80 0",
			"alias.@:80":    "192.0.2.1:80 0, 192.0.2.2:80 0, [2001:db8::1]:80 0",
			"six.@:80":      "[2001:db8::6]:80 0",
			"_price._tcp.@": "a.fleet.example:8001 60, b.fleet.example:8002 20",
			"_none._tcp.@":  "",
		} {
			got, err := listAt(t, z.target(server, name))
			if err != nil || strings.Join(got, ", ") != want {
				t.Errorf("%s, %s: %q, %v", kind, name, got, err)
			}
		}
		if many, err := listAt(t, z.target(server, "many.@:80")); err != nil || len(many) != 120 {
			t.Errorf("%s: %d of 120 records, %v", kind, len(many), err)
		}
		for _, name := range []string{"nothing.@:80", "text.@:80", "_nothing._tcp.@"} {
			if got, err := listAt(t, z.target(server, name)); err == nil || !strings.Contains(err.Error(), "no such host") {
				t.Errorf("%s, %s: %q, %v", kind, name, got, err)
			}
		}
	}
}

// realWatch collects the snapshots of a watch.
func realWatch(t testing.TB, target string) func(what string, ok func(registry.Snapshot) bool) {
	t.Helper()
	snapshots := make(chan registry.Snapshot, 1000)
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() {
		_ = dns.Resolver().Watch(ctx, targetOf(t, target), func(s registry.Snapshot) { snapshots <- s })
	})
	t.Cleanup(group.Wait)
	t.Cleanup(cancel)
	return func(what string, ok func(registry.Snapshot) bool) {
		t.Helper()
		limit := time.After(20 * time.Second)
		for {
			select {
			case s := <-snapshots:
				if ok(s) {
					return
				}
			case <-limit:
				t.Fatalf("no snapshot with %s", what)
			}
		}
	}
}

func listOf(want string) (string, func(registry.Snapshot) bool) {
	return "the list " + want, func(s registry.Snapshot) bool { return s.Err == nil && idsOf(s) == want }
}

// TestRealTimeToLive: through a cache, a change is seen when the time to live has passed, long
// before the interval has.
func TestRealTimeToLive(t *testing.T) {
	z := startZone(t, "price 3 A 192.0.2.1")
	sees := realWatch(t, z.target(z.unbound, "price.@:80")+"&interval=1h")
	sees(listOf("tcp://192.0.2.1:80"))
	changed := time.Now()
	z.set("price 3 A 192.0.2.2")
	sees(listOf("tcp://192.0.2.2:80"))
	if d := time.Since(changed); d < time.Second || d > 10*time.Second {
		t.Errorf("seen after %v", d)
	}
}

// TestRealNotFoundIsNotFailure: records that are removed are an empty list; servers that don't
// answer, or answer that they can't, are an error.
func TestRealNotFoundIsNotFailure(t *testing.T) {
	z := startZone(t, "price 1 A 192.0.2.1")
	sees := realWatch(t, z.target(z.unbound, "price.@:80"))
	sees(listOf("tcp://192.0.2.1:80"))
	z.set()
	sees(listOf(""))
	z.set("price 1 A 192.0.2.2")
	sees(listOf("tcp://192.0.2.2:80"))
	if err := z.server.Process.Signal(syscall.SIGSTOP); err != nil { // unbound answers SERVFAIL, or late
		t.Fatal(err)
	}
	sees("an error", func(s registry.Snapshot) bool {
		if s.Err == nil {
			t.Errorf("a server that is away: the list %q", idsOf(s))
		}
		return true
	})
	if err := z.server.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	sees(listOf("tcp://192.0.2.2:80"))
	_ = z.cache.Process.Kill() // nobody answers
	sees("an error", func(s registry.Snapshot) bool { return s.Err != nil })
}

// liar passes queries to a name server, over UDP, and changes the responses.
type liar struct {
	address string
	lie     atomic.Pointer[func(response []byte) []byte] // nil is the truth; a response of nil is silence
}

func startLiar(t testing.TB, server string) *liar {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &liar{address: conn.LocalAddr().String()}
	var group sync.WaitGroup
	group.Go(func() {
		buf := make([]byte, 4096)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			response, err := exchange(server, buf[:n])
			if err != nil {
				continue
			}
			if lie := l.lie.Load(); lie != nil {
				response = (*lie)(response)
			}
			if response != nil {
				_, _ = conn.WriteTo(response, from)
			}
		}
	})
	t.Cleanup(group.Wait)
	t.Cleanup(func() { conn.Close() })
	return l
}

func exchange(server string, query []byte) ([]byte, error) {
	conn, err := net.Dial("udp", server)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := conn.Write(query); err != nil {
		return nil, err
	}
	buf := make([]byte, 4096)
	n, err := conn.Read(buf)
	return buf[:n], err
}
