//go:build integration

package redisstore_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem/once"
	"github.com/tandem-rpc/tandem/once/oncetest"
	"github.com/tandem-rpc/tandem/stores/redisstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a redis-server process, which "make test-stores" installs.
type server struct {
	t    testing.TB
	addr string
	args []string
	cmd  *exec.Cmd
}

func start(t testing.TB, args ...string) *server {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	s := &server{t: t, addr: ln.Addr().String(), args: append([]string{"--bind", "127.0.0.1", "--port", port, "--dir", t.TempDir(), "--save", ""}, args...)}
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	s.run()
	t.Cleanup(s.kill)
	return s
}

// run starts the process and waits until it is ready.
func (s *server) run() {
	s.t.Helper()
	s.cmd = exec.Command("redis-server", s.args...)
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatalf("%v: run make test-stores, which installs it", err)
	}
	ready := make(chan bool, 1)
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if strings.Contains(lines.Text(), "Ready to accept connections") {
				ready <- true
			}
		}
		close(ready)
	}()
	select {
	case ok := <-ready:
		if !ok {
			s.t.Fatal("redis-server has ended")
		}
	case <-time.After(10 * time.Second):
		s.t.Fatal("redis-server does not get ready")
	}
}

// kill ends the process as a crash would.
func (s *server) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

func (s *server) client() *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: s.addr})
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

func durable() []string { return []string{"--appendonly", "yes", "--appendfsync", "always"} }

func newStore(t *testing.T, s *server, opts ...redisstore.Option) *redisstore.Store {
	t.Helper()
	store, err := redisstore.New(t.Context(), s.client(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func TestStore(t *testing.T) {
	s := start(t, durable()...)
	oncetest.Run(t, oncetest.Harness{Shared: true, New: func(t *testing.T, lease, ttl time.Duration) once.Store {
		return newStore(t, s, redisstore.WithLease(min(lease, ttl/2)), redisstore.WithTTL(ttl))
	}})
}

// A Redis that may lose or evict records is refused, unless the program accepts that.
func TestWeakRedisIsRefused(t *testing.T) {
	for want, args := range map[string][]string{
		"appendonly no": nil, "appendfsync everysec": {"--appendonly", "yes"},
		"maxmemory-policy allkeys-lru": append(durable(), "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"),
	} {
		s := start(t, args...)
		if _, err := redisstore.New(t.Context(), s.client()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
		newStore(t, s, redisstore.WithWeakDurability())
	}
}

func TestWrongOptions(t *testing.T) {
	for want, o := range map[string]redisstore.Option{
		"WithPrefix": redisstore.WithPrefix("{a}"), "WithLease": redisstore.WithLease(0), "WithTTL": redisstore.WithTTL(time.Second),
	} {
		if _, err := redisstore.New(t.Context(), nil, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
}

// What a killed Redis has acknowledged is there afterwards.
func TestKilledRedisForgetsNothing(t *testing.T) {
	s := start(t, durable()...)
	store := newStore(t, s)
	request := func(n int) once.Request {
		return once.Request{ID: once.ID{Method: "Shop.Place", Key: fmt.Sprint(n)}, Fingerprint: "f"}
	}
	const calls = 200
	for n := range calls {
		claim, _, err := store.Begin(t.Context(), request(n))
		if err != nil {
			t.Fatal(err)
		}
		if n%2 == 0 {
			if err := claim.Finish(t.Context(), []byte(fmt.Sprint(n))); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.kill()
	if claim, _, err := store.Begin(context.Background(), request(calls)); err == nil {
		t.Fatalf("%v from a Redis that was killed", claim)
	}
	s.run()
	for n := range calls {
		claim, record, err := store.Begin(t.Context(), request(n))
		if err != nil || claim != nil || (record.State == once.StateDone) != (n%2 == 0) || n%2 == 0 && string(record.Answer) != fmt.Sprint(n) {
			t.Fatalf("call %d: %v, %+v, %v", n, claim, record, err)
		}
	}
}
