//go:build integration

package redislimit_test

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/stores/redislimit"
)

// redisServer is a redis-server process, which "make test-stores" installs.
type redisServer struct {
	addr string
	args []string
	cmd  *exec.Cmd
}

func startRedis(t testing.TB) *redisServer {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	_ = ln.Close()
	s := &redisServer{addr: ln.Addr().String(), args: []string{"--bind", "127.0.0.1", "--port", port, "--dir", t.TempDir(), "--save", ""}}
	s.run(t)
	t.Cleanup(s.kill)
	return s
}

// run starts the process and waits until it is ready.
func (s *redisServer) run(t testing.TB) {
	t.Helper()
	s.cmd = exec.Command("redis-server", s.args...)
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatalf("%v: run make test-stores, which installs it", err)
	}
	ready := make(chan struct{})
	go func() {
		said := false
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if !said && strings.Contains(lines.Text(), "Ready to accept connections") {
				said = true
				close(ready)
			}
		}
	}()
	select {
	case <-ready:
	case <-time.After(10 * time.Second):
		t.Fatal("redis-server does not get ready")
	}
}

// kill ends the process as a crash would.
func (s *redisServer) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

func (s *redisServer) signal(t testing.TB, sig os.Signal) {
	t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// instance is one of the processes of a service.
func (s *redisServer) instance(t testing.TB, opts ...redislimit.Option) *redislimit.Limits {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: s.addr, MaxRetries: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = c.Close() })
	p, err := redislimit.New(c, "shop", append([]redislimit.Option{redislimit.WithTimeout(5 * time.Second)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Several instances share one limit: together they allow what one would, and each caller has its own.
func TestInstancesShareALimit(t *testing.T) {
	s := startRedis(t)
	limit := redislimit.PerCaller(redislimit.Limit{Rate: 100, Burst: 20})
	var instances []*redislimit.Limits
	for range 4 {
		instances = append(instances, s.instance(t, limit))
	}
	var allowed, refused atomic.Int64
	began := time.Now()
	var callers sync.WaitGroup
	for _, p := range instances {
		for range 2 {
			callers.Go(func() {
				for time.Since(began) < 2*time.Second {
					if err := ask(t, p, "A.B", "ada"); err == nil {
						allowed.Add(1)
					} else if tandem.CodeOf(err) == tandem.ResourceExhausted {
						refused.Add(1)
					}
				}
			})
		}
	}
	callers.Wait()
	took := time.Since(began)
	most := int64(took.Seconds()*100) + 20 + 1
	if n := allowed.Load(); n > most || n < most*3/4 || refused.Load() == 0 {
		t.Errorf("in %v 4 instances allowed %d calls, want about %d at most; %d refused", took, n, most, refused.Load())
	}
	for _, p := range instances {
		if st := p.Status(); st.Local != 0 || st.Failures != 0 || st.Shared == 0 {
			t.Errorf("%+v", st)
		}
	}
	if err := ask(t, instances[0], "A.B", strings.Repeat("long", 100)); err != nil {
		t.Errorf("another caller: %v", err)
	}
	t.Logf("in %v 4 instances allowed %d calls of at most %d, and refused %d", took, allowed.Load(), most, refused.Load())
}

// A Redis that is stopped or killed delays few calls, and they are counted by each instance until it is back.
func TestRedisThatIsAway(t *testing.T) {
	s := startRedis(t)
	p := s.instance(t, redislimit.PerCaller(redislimit.Limit{Rate: 0.01, Burst: 3}), redislimit.WithTimeout(time.Second))
	for want := range []int{3: 0} {
		err := ask(t, p, "A.B", "ada")
		if (err == nil) != (want < 3) {
			t.Errorf("call %d: %v", want, err)
		}
	}
	s.signal(t, syscall.SIGSTOP)
	began := time.Now()
	if err := ask(t, p, "A.B", "ada"); err != nil { // its own bucket is full
		t.Errorf("counted by the instance: %v", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("a stopped Redis delayed a call by %v", took)
	}
	if st := p.Status(); !st.Away || st.Local != 1 || st.Failures != 1 {
		t.Errorf("while it is stopped: %+v", st)
	}
	s.signal(t, syscall.SIGCONT)
	s.kill()
	s.run(t)
	for end := time.Now().Add(20 * time.Second); p.Status().Away; {
		if time.Now().After(end) {
			t.Fatalf("Redis is back, and not asked: %+v", p.Status())
		}
		_ = ask(t, p, "A.B", "bob")
		time.Sleep(20 * time.Millisecond) // the process has no other clock
	}
	if st := p.Status(); st.Error != "" || st.Shared < 4 {
		t.Errorf("when it is back: %+v", st)
	}
}
