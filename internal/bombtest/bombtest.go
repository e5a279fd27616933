//go:build linux

// Package bombtest measures what a server takes while it gets messages that are small on the
// wire and large in memory: a process of its own serves, this one attacks, and honest calls
// are made beside it.
package bombtest

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// What an attack sends, and what it may do to a server.
const (
	Size = 4<<20 - 16 // bytes of each bomb, in memory

	mostRSS  = 512 << 20
	mostLeft = 4 << 20 // that the live heap may have grown at the end
)

var bombs = flag.Int("bombs", 128, "how many bombs of each kind are sent at the same time; make bombs sends 1,024") //nolint:gochecknoglobals // a flag

// Bombs is how many bombs an attack sends at the same time.
func Bombs() int { return *bombs }

// MostSent bounds the bytes of bombs that are large on the wire, too.
func MostSent() int { return Bombs() * (128 << 10) }

// An Attack sends its bombs to a server, and waits for the answers.
type Attack struct {
	Name string
	Send func(t *testing.T, address string)
}

// Run runs each attack against a server that lets everybody in, and against one that lets only
// honest calls in. The package has a test TestServeForBombs that calls [Serve].
func Run(t *testing.T, attacks []Attack) {
	for _, a := range attacks {
		for _, open := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, let in %v", a.Name, open), func(t *testing.T) { bombard(t, a, open) })
		}
	}
}

// bombard attacks a process of its own that serves everybody, or nobody but honest callers.
func bombard(t *testing.T, a Attack, open bool) {
	p := startServer(t, open)
	stop := honest(t, p.address)
	before, _ := p.heap()
	began := time.Now()
	a.Send(t, p.address)
	took := time.Since(began)
	stop()
	deadline := time.Now().Add(2 * time.Minute) // what the sockets have taken is served first
	after, worked := p.heap()
	for after > before+mostLeft && time.Now().Before(deadline) {
		time.Sleep(50 * time.Millisecond) // until the connections have ended
		after, worked = p.heap()
	}
	peak := p.peak()
	t.Logf("%d MiB at peak, heap %d KiB before and %d KiB after, %v, %d handled", peak>>20, before>>10, after>>10, took.Round(time.Millisecond), worked)
	if (worked > 0) != open {
		t.Errorf("handlers got %d bombs", worked)
	}
	if peak > mostRSS {
		t.Errorf("%d MiB at peak", peak>>20)
	}
	if after > before+mostLeft {
		t.Errorf("heap %d KiB before, %d KiB after", before>>10, after>>10)
	}
}

// Concurrently runs f n times.
func Concurrently(n int, f func()) {
	var wg sync.WaitGroup
	for range n {
		wg.Go(f)
	}
	wg.Wait()
}

// OverTCP sends first, and then the same frame n times on one connection, and reads until there
// is nothing more for a second.
func OverTCP(n int, first, frame []byte) func(*testing.T, string) {
	return func(t *testing.T, address string) {
		c, err := transport.TCP().Dial(context.Background(), address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		read := make(chan struct{})
		var got atomic.Int64
		go func() {
			defer close(read)
			b := make([]byte, 64<<10)
			for {
				more, err := c.Read(b)
				got.Add(int64(more))
				if err != nil {
					return
				}
			}
		}()
		if _, err := c.Write(first); err != nil {
			t.Error(err)
		}
		for range min(n, 1+MostSent()/len(frame)) {
			if _, err := c.Write(frame); err != nil {
				break // cut off
			}
		}
		for last := int64(-1); last != got.Load(); {
			last = got.Load()
			time.Sleep(time.Second) // that nothing more comes can't be seen otherwise
		}
		_ = c.Close()
		<-read
	}
}

// neighbor dials from an address of its own: callers are told apart by their networks, and
// those of the attackers' network share what is left to it.
type neighbor struct{ tandem.Transport }

func (neighbor) Dial(ctx context.Context, address string) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	return d.DialContext(ctx, "tcp", address)
}

// honest makes native and HTTP calls until it is stopped, none of which may fail.
func honest(t *testing.T, address string) (stop func()) {
	own := func(next tandem.Func) tandem.Func {
		return func(ctx context.Context, call *tandem.Call) error {
			call.SetMetadata("honest", "yes")
			return next(ctx, call)
		}
	}
	c, err := client.Dial("tcp://"+address, client.WithTimeout(30*time.Second), client.WithTransport("tcp", neighbor{transport.TCP()}), client.WithInterceptors(own))
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
		return neighbor{}.Dial(ctx, address)
	}}}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var made [2]int
	wg.Go(func() {
		for ctx.Err() == nil {
			if n, err := client.Invoke[int](context.Background(), c, "Text.Len", "tandem"); err != nil || *n != 6 {
				t.Errorf("an honest native call: %v", err)
				return
			}
			made[0]++
			time.Sleep(20 * time.Millisecond) // that many calls are enough
		}
	})
	wg.Go(func() {
		for ctx.Err() == nil {
			if err := postLen(web, address); err != nil {
				t.Errorf("an honest HTTP call: %v", err)
				return
			}
			made[1]++
			time.Sleep(20 * time.Millisecond) // as above
		}
	})
	return func() {
		cancel()
		wg.Wait()
		_ = c.Close()
		web.CloseIdleConnections()
		if made[0] == 0 || made[1] == 0 {
			t.Errorf("honest calls: %d", made)
		}
	}
}

func postLen(web *http.Client, address string) error {
	req, err := http.NewRequest(http.MethodPost, "http://"+address+"/Text/Len", strings.NewReader(`"tandem"`))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Honest", "yes")
	res, err := web.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if b, err := io.ReadAll(res.Body); err != nil || string(bytes.TrimSpace(b)) != "6" {
		return fmt.Errorf("%s: %q %w", res.Status, b, err)
	}
	return nil
}

// process is a server in a process of its own.
type process struct {
	t       *testing.T
	cmd     *exec.Cmd
	in      io.Writer
	out     *bufio.Scanner
	address string
}

const serveEnv = "TANDEM_TEST_SERVE"

func startServer(t *testing.T, open bool) *process {
	cmd := exec.Command(os.Args[0], "-test.run=^TestServeForBombs$")
	cmd.Env = append(os.Environ(), serveEnv+"="+map[bool]string{true: "open", false: "shut"}[open])
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	p := &process{t, cmd, in, bufio.NewScanner(out), ""}
	p.address = p.next()
	return p
}

func (p *process) next() string {
	if !p.out.Scan() {
		p.t.Fatal("the server's process has ended")
	}
	return p.out.Text()
}

// heap returns the live heap after two collections, and how many bombs handlers got.
func (p *process) heap() (bytes uint64, worked int) {
	if _, err := fmt.Fprintln(p.in); err != nil {
		p.t.Fatal(err)
	}
	if _, err := fmt.Sscan(p.next(), &bytes, &worked); err != nil {
		p.t.Fatal(err)
	}
	return bytes, worked
}

// peak returns the most memory that was resident.
func (p *process) peak() (bytes uint64) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	if _, err := fmt.Sscan(after, &bytes); err != nil {
		p.t.Fatal(err)
	}
	return bytes << 10
}

// Serve serves in the process that Run starts, and does nothing in others. build returns a
// server with HTTP and with what is attacked, given what lets callers in; Text.Len is there
// already.
func Serve(build func(admit tandem.Interceptor) *server.Server) {
	who := os.Getenv(serveEnv)
	if who == "" {
		return
	}
	srv := build(func(next tandem.Func) tandem.Func {
		return func(ctx context.Context, call *tandem.Call) error {
			if who != "open" && call.Metadata.Get("honest") == "" {
				return tandem.Errorf(tandem.Unauthenticated, "who are you?")
			}
			return next(ctx, call)
		}
	})
	check(server.Handle(srv, "Text.Len", func(_ context.Context, s *string) (*int, error) {
		if len(*s) > len("tandem") {
			Work(Small)
		}
		return new(len(*s)), nil
	}))
	ln, err := transport.TCP().Listen(context.Background(), "127.0.0.1:0")
	check(err)
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	fmt.Println(ln.Addr())
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		fmt.Println(m.HeapAlloc, worked.Load())
	}
	_ = srv.Close()
	<-served
}

// How long no other bomb may come until those that handlers keep are released: longer than a
// server needs to decode one.
const (
	Small = 100 * time.Millisecond // for bombs of [Size]
	Slow  = 400 * time.Millisecond // for lists of 58 MiB
)

// Work is what a handler does that has got a bomb: it keeps it until no other has come for the
// time quiet. A server without bounds therefore keeps all at the same time.
func Work(quiet time.Duration) {
	worked.Add(1)
	<-kept.add(quiet)
}

// A batch is released when nothing was added for a while.
type batch struct {
	mu      sync.Mutex
	release chan struct{} // nil while nothing is kept
	timer   *time.Timer
}

func (b *batch) add(quiet time.Duration) (release <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.release == nil {
		b.release = make(chan struct{})
		b.timer = time.AfterFunc(quiet, b.end)
	}
	b.timer.Reset(quiet)
	return b.release
}

func (b *batch) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.release != nil {
		close(b.release)
		b.release = nil
	}
}

var kept batch //nolint:gochecknoglobals // a process serves one attack

var worked atomic.Int64 // bombs that handlers got

func check(err error) {
	if err != nil {
		panic(err)
	}
}
