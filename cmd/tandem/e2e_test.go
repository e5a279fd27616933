package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// command builds the command, once, and returns its path.
func command(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the command and runs processes")
	}
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var build = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "build", "-o", binaryPath(), ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return binaryPath(), nil
})

func binaryPath() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("tandem-test-%d.exe", os.Getpid()))
}

func removeBinary() { _ = os.Remove(binaryPath()) }

// execute runs the command to its end.
func execute(t *testing.T, args ...string) (code int, out string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	text, err := exec.CommandContext(ctx, command(t), args...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if exit != nil {
		code = exit.ExitCode()
	}
	return code, string(text)
}

func TestDemoLosesNoCall(t *testing.T) {
	code, out := execute(t, "demo", "--duration", "6s", "--rate", "200", "--explain")
	if code != exitOK || !strings.Contains(out, "PASS") {
		t.Errorf("exit %d\n%s", code, out)
	}
	for _, event := range []string{"kill s", "restart s", "drain s", "add s4", "where a call would go now:\nArith.Mul at file://", "(not connected)"} {
		if !strings.Contains(out, event) {
			t.Errorf("no %q in\n%s", event, out)
		}
	}
}

func TestDemoWithoutFailoverLosesCalls(t *testing.T) {
	code, out := execute(t, "demo", "--duration", "4s", "--rate", "200", "--no-failover")
	if code != exitFailed || !strings.Contains(out, "FAIL  every call was answered") || strings.Count(out, "FAIL  ") != 1 {
		t.Errorf("exit %d\n%s", code, out)
	}
}

// spawned is a running process of the command.
type spawned struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
	stdin io.Closer
	errs  bytes.Buffer
}

func spawn(t *testing.T, args ...string) *spawned {
	t.Helper()
	s := &spawned{cmd: exec.Command(command(t), args...)}
	s.cmd.Stderr = &s.errs
	s.cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir()) // a killed demo leaves its files
	stdin, err := s.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
	})
	s.stdin, s.lines = stdin, bufio.NewScanner(stdout)
	return s
}

// next returns the next line.
func (s *spawned) next(t *testing.T) string {
	t.Helper()
	if !s.lines.Scan() {
		t.Fatalf("no line, but: %v %s", s.lines.Err(), s.errs.String())
	}
	return s.lines.Text()
}

// exit waits for the end and returns the exit code.
func (s *spawned) exit(t *testing.T) int {
	t.Helper()
	stuck := time.AfterFunc(20*time.Second, func() { _ = s.cmd.Process.Kill() })
	defer stuck.Stop()
	for s.lines.Scan() { // Wait requires that all output was read
	}
	_ = s.cmd.Wait()
	return s.cmd.ProcessState.ExitCode()
}

func TestServeAndCall(t *testing.T) {
	s := spawn(t, "serve", "--listen", "tcp://127.0.0.1:0")
	rest := strings.TrimPrefix(s.next(t), "serving ")
	target, methods, _ := strings.Cut(rest, ": ")
	for _, m := range []string{"Arith.Mul", "Hello.Say", "Chat.Talk"} {
		if !strings.Contains(methods, m) {
			t.Errorf("%s is not among %s", m, methods)
		}
	}
	if code, out := execute(t, "call", target, "Arith.Mul", `{"A":7,"B":8}`); code != exitOK || out != "{\"C\":56}\n" {
		t.Errorf("exit %d, %s", code, out)
	}
	signalTo(t, s, syscall.SIGTERM)
	if code := s.exit(t); code != exitOK {
		t.Errorf("exit %d, %s", code, s.errs.String())
	}
	if code, out := execute(t, "call", target, "Arith.Mul", `{"A":7,"B":8}`); code != 24 || !strings.Contains(out, "it did not run") {
		t.Errorf("exit %d, %s", code, out)
	}
}

func signalTo(t *testing.T, s *spawned, sig os.Signal) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("has no signals")
	}
	if err := s.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// TestDemoServersEndWithTheDemo interrupts one demo and kills another, which can't end its
// servers itself.
func TestDemoServersEndWithTheDemo(t *testing.T) {
	for _, c := range []struct {
		signal os.Signal
		code   int
	}{{os.Interrupt, exitInterrupted}, {syscall.SIGKILL, -1}} {
		s := spawn(t, "demo", "--duration", "30s", "--rate", "50", "--plain")
		s.next(t) // the heading
		s.next(t) // the first second
		servers := children(t, s.cmd.Process.Pid)
		if len(servers) != 3 {
			t.Fatalf("%d servers", len(servers))
		}
		signalTo(t, s, c.signal)
		if code := s.exit(t); code != c.code {
			t.Errorf("%v: exit %d, %s", c.signal, code, s.errs.String())
		}
		for _, pid := range servers {
			if !gone(pid) {
				t.Errorf("%v: server %d outlives its demo", c.signal, pid)
			}
		}
	}
}

// children returns the processes that a process has started.
func children(t *testing.T, pid int) (pids []int) {
	t.Helper()
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	if len(stats) == 0 {
		if runtime.GOOS == "linux" {
			t.Fatal("/proc is not mounted")
		}
		t.Skip("needs Linux's /proc")
	}
	for _, name := range stats {
		data, err := os.ReadFile(name)
		if err != nil {
			continue // the process has ended
		}
		// "pid (name) state parent …", see proc(5); the name may be anything.
		var state string
		var child, parent int
		_, behind, _ := strings.Cut(string(data[bytes.LastIndexByte(data, ')'):]), " ")
		_, bad := fmt.Sscan(behind, &state, &parent)
		if _, err := fmt.Sscan(string(data), &child); errors.Join(bad, err) != nil {
			t.Fatal(err)
		}
		if parent == pid {
			pids = append(pids, child)
		}
	}
	return pids
}

// gone waits until a process, which is not our child, has ended.
func gone(pid int) bool {
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); runtime.Gosched() {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || bytes.Contains(stat, []byte(") Z ")) { // a zombie: its parent has not waited for it yet
			return true
		}
	}
	return false
}

func TestDemoServerEndsWithItsInput(t *testing.T) {
	dir := t.TempDir()
	s := spawn(t, demoServer, "--name", "s1", "--registry", "file://"+filepath.ToSlash(filepath.Join(dir, "registry")), "--journal", filepath.Join(dir, "journal"))
	if line := s.next(t); !strings.HasPrefix(line, "ready 127.0.0.1:") {
		t.Errorf("it says %q", line)
	}
	s.stdin.Close()
	if code := s.exit(t); code != exitFailed || !strings.Contains(s.errs.String(), errOrphaned.Error()) {
		t.Errorf("exit %d, %s", code, s.errs.String())
	}
}
