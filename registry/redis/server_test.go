//go:build integration

package redis

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/tandem-rpc/tandem/registry/registrytest"
)

// server is a redis-server process that one test uses.
type server struct {
	t    testing.TB
	dir  string
	port int
	args []string
	cmd  *exec.Cmd
}

// start runs a redis-server that stores every write in a folder of the test. It fails the
// test on a machine without redis-server: "make test-registries" installs it.
func start(t testing.TB, args ...string) *server {
	s := &server{t: t, dir: t.TempDir(), port: registrytest.FreePort(t), args: args}
	s.run()
	t.Cleanup(s.kill)
	return s
}

func (s *server) run() {
	s.t.Helper()
	args := append([]string{
		"--port", fmt.Sprint(s.port), "--bind", "127.0.0.1", "--dir", s.dir,
		"--save", "", "--appendonly", "yes", "--appendfsync", "always",
	}, s.args...)
	s.runWith("Ready to accept connections", args...)
}

// runWith starts the process and waits until it logs the text ready.
func (s *server) runWith(ready string, args ...string) {
	s.t.Helper()
	s.cmd = exec.Command("redis-server", args...)
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatalf("%v: run make test-registries, which installs it", err)
	}
	said := make(chan string, 1)
	go func() {
		var all strings.Builder
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if strings.Contains(lines.Text(), ready) {
				said <- ""
			}
			if all.Len() < 1<<14 {
				fmt.Fprintln(&all, lines.Text())
			}
		}
		select {
		case said <- "it ended: " + all.String():
		default:
		}
	}()
	select {
	case problem := <-said:
		if problem != "" {
			s.t.Fatal(problem)
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

// forget deletes the data that the server has stored.
func (s *server) forget() {
	files, _ := filepath.Glob(filepath.Join(s.dir, "*"))
	for _, f := range files {
		os.RemoveAll(f)
	}
}

func (s *server) signal(sig syscall.Signal) error { return s.cmd.Process.Signal(sig) }

func (s *server) target(path string) string {
	return fmt.Sprintf("redis://127.0.0.1:%d/%s", s.port, path)
}

// admin returns a client with all rights.
func (s *server) admin() *goredis.Client {
	c := goredis.NewClient(&goredis.Options{Addr: fmt.Sprintf("127.0.0.1:%d", s.port), Protocol: 2, DisableIdentity: true})
	s.t.Cleanup(func() { c.Close() })
	return c
}
