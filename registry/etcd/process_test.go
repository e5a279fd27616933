//go:build integration && unix

package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/tandem-rpc/tandem/registry/registrytest"
)

// server is a process of the command etcd, for example of Debian's package etcd-server.
type server struct {
	t      testing.TB
	client string   // host:port
	peer   string   // the URL for other members
	args   []string // all but the data directory
	dir    string
	login  func(*clientv3.Config) // how the test itself connects; may be nil

	mu      sync.Mutex
	process *exec.Cmd
	output  *bytes.Buffer
}

// startServer starts a server with no data, and waits until it answers.
func startServer(t testing.TB, args ...string) *server {
	t.Helper()
	s := newServer(t, "http", args...)
	s.start()
	return s
}

// newServer prepares a server with no data.
func newServer(t testing.TB, scheme string, args ...string) *server {
	t.Helper()
	s := &server{t: t, client: registrytest.FreeAddress(t), peer: "http://" + registrytest.FreeAddress(t), dir: t.TempDir()}
	s.args = append([]string{
		"--name", "test", "--listen-client-urls", scheme + "://" + s.client, "--advertise-client-urls", scheme + "://" + s.client,
		"--listen-peer-urls", s.peer, "--initial-advertise-peer-urls", s.peer,
		"--initial-cluster", "test=" + s.peer, "--log-level", "error",
		"--unsafe-no-fsync", // the tests kill the process only, not the machine
	}, args...)
	t.Cleanup(s.kill)
	return s
}

// start starts the process with the data in dir, and waits until it answers.
func (s *server) start() {
	s.t.Helper()
	if err := s.launch(); err != nil {
		s.t.Fatal(err)
	}
}

func (s *server) launch() error {
	bin, err := exec.LookPath("etcd")
	if err != nil {
		return fmt.Errorf("the tests need Debian's etcd-server, or another etcd in the path: %w", err)
	}
	s.mu.Lock()
	s.output = new(bytes.Buffer)
	s.process = exec.Command(bin, append([]string{"--data-dir", s.dir}, s.args...)...)
	s.process.Stdout, s.process.Stderr = s.output, s.output
	err = s.process.Start()
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return s.await()
}

// await waits until the server answers.
func (s *server) await() error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for {
		err := s.try(func(c *clientv3.Client) error {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_, err := c.Get(ctx, "/ready")
			return err
		})
		if err == nil || strings.Contains(err.Error(), "permission denied") {
			return nil
		}
		if ctx.Err() != nil {
			s.kill()
			return fmt.Errorf("etcd does not answer: %w\n%s", err, s.output)
		}
		time.Sleep(20 * time.Millisecond) // another process: there is nothing else to wait for
	}
}

// try calls f with a new client.
func (s *server) try(f func(*clientv3.Client) error) error {
	config := clientv3.Config{Endpoints: []string{s.client}, DialTimeout: 5 * time.Second, Logger: zap.NewNop()}
	if s.login != nil {
		s.login(&config)
	}
	c, err := clientv3.New(config)
	if err != nil {
		return err
	}
	defer c.Close()
	return f(c)
}

// do is try for calls that must succeed; otherwise the test fails.
func (s *server) do(f func(context.Context, *clientv3.Client) error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := s.try(func(c *clientv3.Client) error { return f(ctx, c) }); err != nil {
		s.t.Fatal(err)
	}
}

// many calls f for each number below n, 32 at the same time, because on a busy machine
// one call after the other takes too long.
func (s *server) many(n int, f func(context.Context, *clientv3.Client, int) error) {
	s.t.Helper()
	s.do(func(ctx context.Context, c *clientv3.Client) error {
		const atATime = 32
		errs := make([]error, atATime)
		var wg sync.WaitGroup
		for first := range atATime {
			wg.Go(func() {
				for i := first; i < n && errs[first] == nil; i += atATime {
					errs[first] = f(ctx, c, i)
				}
			})
		}
		wg.Wait()
		return errors.Join(errs...)
	})
}

// signal sends the process a signal.
func (s *server) signal(sig syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process.Process.Signal(sig)
}

// kill kills the process with SIGKILL, and waits for its end.
func (s *server) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil || s.process.Process == nil {
		return
	}
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
	s.process = nil
}

// empty makes the next start begin without data.
func (s *server) empty() { s.dir = s.t.TempDir() }
