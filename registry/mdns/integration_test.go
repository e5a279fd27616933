//go:build integration

package mdns

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	hashicorp "github.com/hashicorp/mdns"
	"github.com/miekg/dns"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
)

// register lists an instance until the test ends.
func register(t testing.TB, target string, in tandem.Instance, opts ...Option) registry.Registration {
	t.Helper()
	r, err := New(target, opts...)
	if err != nil {
		t.Fatal(err)
	}
	reg, err := r.Register(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reg.Close() })
	return reg
}

// logged collects log output. It is safe for concurrent use.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// count returns the number of lines that have all the words.
func (l *logged) count(words ...string) (n int) {
	for line := range strings.Lines(l.String()) {
		all := true
		for _, w := range words {
			all = all && strings.Contains(line, w)
		}
		if all {
			n++
		}
	}
	return n
}

// view records what a watch delivers.
type view struct {
	t    testing.TB
	mu   sync.Mutex
	last registry.Snapshot
	errs int
	news chan struct{}
}

// look watches until the test ends.
func look(t testing.TB, r registry.Resolver, target string) *view {
	v := &view{t: t, news: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Watch(ctx, mustParse(t, target), v.update) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Watch returned %v", err)
		}
	})
	return v
}

func (v *view) update(s registry.Snapshot) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if s.Err != nil {
		v.errs++
	} else {
		v.last = s
	}
	select {
	case v.news <- struct{}{}:
	default:
	}
}

// sees waits for a list of exactly the IDs in want, and returns how long that took.
func (v *view) sees(within time.Duration, want ...string) time.Duration {
	v.t.Helper()
	slices.Sort(want)
	start, timeout := time.Now(), time.After(within)
	for {
		v.mu.Lock()
		last := v.last
		v.mu.Unlock()
		var ids []string
		for _, in := range last.Instances {
			ids = append(ids, in.ID)
		}
		if last.Revision > 0 && slices.Equal(ids, want) {
			return time.Since(start)
		}
		select {
		case <-v.news:
		case <-timeout:
			v.t.Fatalf("no list %.200q after %v; the last: %.200q", want, within, ids)
		}
	}
}

// server is a process on another machine: a network namespace at the other end of a veth
// pair.
type server struct {
	cmd *exec.Cmd
	in  io.WriteCloser
}

const farTarget = "prod/Arith?ttl=2s"

// boot starts a machine with a server that registers "far".
func boot(t testing.TB) *server {
	holder := exec.Command("cat") // keeps the namespace while its input is open
	holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	start(t, holder)
	run("ip link add far0 type veth peer name far1")
	t.Cleanup(func() { run("ip link del far0") })
	run("ip addr add 10.78.0.1/24 dev far0")
	run("ip link set far0 up")
	run(fmt.Sprintf("ip link set far1 netns %d", holder.Process.Pid))

	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("nsenter", "--net="+fmt.Sprintf("/proc/%d/ns/net", holder.Process.Pid), self)
	cmd.Env = append(os.Environ(), inside+"=child")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s := &server{cmd, start(t, cmd)}
	fmt.Fprintln(s.in, "mdns://far1/"+farTarget)
	lines := bufio.NewScanner(out)
	if lines.Scan(); lines.Text() != "registered" {
		t.Fatalf("the server says %q", lines.Text())
	}
	return s
}

// start starts a process that is killed when the test ends, and returns its input.
func start(t testing.TB, cmd *exec.Cmd) io.WriteCloser {
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return in
}

// TestOtherMachineIsKilled: an instance on another machine is found, and leaves the list
// within its time to live when its process is killed.
func TestOtherMachineIsKilled(t *testing.T) {
	v := look(t, Resolver(), "mdns://mdns0/other")
	s := boot(t)
	far := look(t, Resolver(), "mdns://far0/"+farTarget)
	far.sees(3*time.Second, "far")
	<-time.After(2500 * time.Millisecond) // it stays, as it is asked again
	far.sees(time.Second, "far")
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if took := far.sees(6 * time.Second); took > 5*time.Second {
		t.Errorf("gone after %v, with a time to live of 3 s", took)
	}
	v.sees(time.Second)
	if far.errs > 0 {
		t.Errorf("%d errors", far.errs)
	}
}

// TestOtherMachineCloses: an instance that is closed on another machine leaves the list at
// once.
func TestOtherMachineCloses(t *testing.T) {
	s := boot(t)
	far := look(t, Resolver(), "mdns://far0/"+farTarget)
	far.sees(3*time.Second, "far")
	fmt.Fprintln(s.in)
	if took := far.sees(2 * time.Second); took > 1500*time.Millisecond {
		t.Errorf("gone after %v", took)
	}
	if err := s.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// TestDeafRegistrationHeals: a recreated interface has lost its memberships of the
// multicast group, so a registration receives no questions until it starts again.
func TestDeafRegistrationHeals(t *testing.T) {
	at, err := parse(mustParse(t, "mdns://mdns0/Arith?ttl=3s"))
	if err != nil {
		t.Fatal(err)
	}
	register(t, "mdns://mdns0/Arith?ttl=3s", instance("a"))
	answers := func() int {
		list, err := ask(t.Context(), at, at.service, quiet)
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	if answers() != 1 {
		t.Fatal("no answer")
	}
	run("ip link del mdns0")
	makeInterface()
	if answers() != 0 {
		t.Fatal("it is not deaf: the test shows nothing")
	}
	for start := time.Now(); answers() != 1; {
		if time.Since(start) > 4*time.Second {
			t.Fatal("no answer for 4 s")
		}
	}
}

// TestIPv6: servers answer questions that are sent only by IPv6, and watches send questions
// by IPv6 if the target says so.
func TestIPv6(t *testing.T) {
	run("ip addr add fd77::1/64 dev mdns0 nodad")
	register(t, "mdns://mdns0/six?ttl=3s", instance("a"))
	iface, err := interfaceOf("mdns0")
	if err != nil {
		t.Fatal(err)
	}
	entries := make(chan *hashicorp.ServiceEntry, 1)
	err = hashicorp.QueryContext(t.Context(), &hashicorp.QueryParam{
		Service: "_six._tcp", Timeout: window, Interface: iface, Entries: entries, DisableIPv4: true, Logger: logger(quiet),
	})
	if err != nil || len(entries) != 1 {
		t.Errorf("%d answers, %v", len(entries), err)
	}

	questions, err := net.ListenMulticastUDP("udp6", iface, &net.UDPAddr{IP: net.ParseIP("ff02::fb"), Port: 5353})
	if err != nil {
		t.Fatal(err)
	}
	defer questions.Close()
	for target, want := range map[string]bool{"mdns://mdns0/both?ipv6=true": true, "mdns://mdns0/four": false} {
		at, err := parse(mustParse(t, target))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ask(t.Context(), at, at.service, quiet); err != nil {
			t.Fatal(err)
		}
		if asked := questionAbout(t, questions, at.fqdn()); asked != want {
			t.Errorf("%s asks by IPv6: %v", target, asked)
		}
	}
	look(t, Resolver(), "mdns://mdns0/six?ipv6=true").sees(2*time.Second, "a")
}

// questionAbout reports whether one of the received questions asks for the service. Each
// may arrive twice: the other end of the veth pair is an interface of this machine, too.
func questionAbout(t *testing.T, questions *net.UDPConn, service string) bool {
	t.Helper()
	questions.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	found := false
	for packet := make([]byte, 1500); ; {
		n, err := questions.Read(packet)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return found
		}
		var m dns.Msg
		if err != nil || m.Unpack(packet[:n]) != nil {
			t.Fatalf("%d bytes, %v: no question", n, err)
		}
		for _, q := range m.Question {
			found = found || strings.EqualFold(q.Name, service)
		}
	}
}

// TestHostileAnswers: other programs answer with invalid records beside a valid instance.
func TestHostileAnswers(t *testing.T) {
	var out logged
	const target = "mdns://mdns0/Arith?ttl=2s"
	good, err := encodeTXT(instance("good"))
	if err != nil {
		t.Fatal(err)
	}
	heavy := `json0={"id":"heavy","weight":1000000,"endpoints":[{"transport":"tcp","address":"a:1"}]}`
	large := make([]string, 220)
	for i := range large {
		large[i] = fmt.Sprintf("json%d=%0240d", i, 1)
	}
	for label, txt := range map[string][]string{
		"printer": {"rp=printers/x"},
		"broken":  {"json0={{{"},
		"heavy":   {heavy},
		"large":   large,
		"twin":    good, // has the ID of the good one, and did not start later
		"strange": {`json0={"id":"strange","endpoints":[{"transport":"pigeon","address":"a"}]}`},
	} {
		stranger(t, label, txt)
	}
	v := look(t, Resolver(WithLogger(out.logger())), target)
	v.sees(2*time.Second, "good", "strange")
	register(t, target, instance("good"))
	register(t, target, instance("more"))
	v.sees(2*time.Second, "good", "more", "strange")
	for _, label := range []string{"printer", "broken", "heavy", "large"} {
		if n := out.count("entry dropped", "key="+label+"._arith._tcp.local."); n != 1 {
			t.Errorf("%d lines in the log about %s", n, label)
		}
	}
}

// stranger answers for _arith._tcp.local with the given TXT record.
func stranger(t testing.TB, label string, txt []string) {
	iface, err := interfaceOf("mdns0")
	if err != nil {
		t.Fatal(err)
	}
	records, err := hashicorp.NewMDNSService(label, "_arith._tcp", "local.", label+".local.", 80, addresses(iface), txt)
	if err != nil {
		t.Fatal(err)
	}
	server, err := hashicorp.NewServer(&hashicorp.Config{Zone: records, Iface: iface, Logger: logger(quiet)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Shutdown() })
}

// TestFirstQuestionIsLost: the first question may be lost, so a watch does not deliver an
// empty list after a single question.
func TestFirstQuestionIsLost(t *testing.T) {
	good, err := encodeTXT(instance("good"))
	if err != nil {
		t.Fatal(err)
	}
	v := look(t, Resolver(), "mdns://mdns0/Arith")
	<-time.After(window / 2) // it has asked, and waits
	stranger(t, "late", good)
	v.sees(2*time.Second, "good")
	if v.last.Revision != 1 {
		t.Errorf("the first list was another; this is revision %d", v.last.Revision)
	}
}

// TestManyWatches watches a hundred services at once.
func TestManyWatches(t *testing.T) {
	const n = 100
	r := Resolver()
	views := make([]*view, n)
	for i := range views {
		views[i] = look(t, r, fmt.Sprintf("mdns://mdns0/s%d", i))
	}
	for _, v := range views {
		v.sees(5 * time.Second)
	}
	start := time.Now()
	for i := range views {
		register(t, fmt.Sprintf("mdns://mdns0/s%d", i), instance("a"))
	}
	for _, v := range views {
		v.sees(5*time.Second, "a")
	}
	t.Logf("%d changes in as many lists were seen after %v", n, time.Since(start))
}

// TestLargeInstance: an instance that does not fit into one packet is listed, up to the
// limit of the protocol.
func TestLargeInstance(t *testing.T) {
	var out logged
	const target = "mdns://mdns0/large?ttl=3s"
	in := instance("a")
	in.Tags = map[string]string{"a": string(make([]byte, 1000)), "b": `\"ü` + fmt.Sprintf("%02000d", 7)}
	v := look(t, Resolver(), target)
	register(t, target, in, WithLogger(out.logger()))
	v.sees(3*time.Second, "a")
	if got := v.last.Instances[0].Tags; got["a"] != in.Tags["a"] || got["b"] != in.Tags["b"] {
		t.Errorf("tags arrive as %q", got)
	}
	if out.count("does not fit into one packet") != 1 {
		t.Errorf("the log says %q", out.String())
	}
}
