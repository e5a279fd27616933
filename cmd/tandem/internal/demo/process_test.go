package demo

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"
)

// shellCommand runs a script as a server process.
func shellCommand(t *testing.T, script string) *exec.Cmd {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs a POSIX shell")
	}
	return exec.Command("sh", "-c", script)
}

func start(t *testing.T, script string) *process {
	t.Helper()
	p, err := spawn(shellCommand(t, script))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.kill(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func TestProcessIsKilled(t *testing.T) {
	p := start(t, "echo ready 127.0.0.1:1; cat") // ends with its input, or is killed
	<-p.ready
	if p.address != "127.0.0.1:1" || !exists(p.pid()) {
		t.Errorf("address %q, exists %v", p.address, exists(p.pid()))
	}
	if err := p.kill(); err != nil || exists(p.pid()) || p.err == nil {
		t.Errorf("killed: %v, exists %v, ended %v", err, exists(p.pid()), p.err)
	}
	if err := p.kill(); err != nil {
		t.Errorf("killed again: %v", err)
	}
}

func TestProcessDrains(t *testing.T) {
	p := start(t, `trap 'echo draining 7; echo drained 0; exit 0' TERM; echo ready x; while :; do sleep 0.01; done`)
	<-p.ready
	if err := p.stop(t.Context(), killTime); err != nil {
		t.Fatal(err)
	}
	if running, left, acknowledged := p.drainReport(); running != 7 || left != 0 || !acknowledged {
		t.Errorf("%d running, %d left, acknowledged %v", running, left, acknowledged)
	}
}

func TestProcessThatDoesNotDrain(t *testing.T) {
	p := start(t, `trap 'echo "I would rather not" >&2' TERM; echo ready x; while :; do sleep 0.01; done`)
	<-p.ready
	err := p.stop(t.Context(), 100*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "I would rather not") {
		t.Errorf("stopped: %v", err)
	}
	if exists(p.pid()) {
		t.Error("it still exists")
	}
}

func TestProcessThatFails(t *testing.T) {
	c := newCluster(t.TempDir(), "", &Config{Command: func(Role) *exec.Cmd {
		return shellCommand(t, "echo no room >&2; exit 3")
	}})
	defer c.killAll()
	err := c.start(t.Context(), "s1")
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "no room") {
		t.Errorf("started: %v", err)
	}
	if _, s := c.get("s1"); s != failed {
		t.Errorf("state %s", s)
	}
}

func TestClusterNeedsEveryServer(t *testing.T) {
	c := newCluster(t.TempDir(), "", &Config{Command: func(r Role) *exec.Cmd {
		if r.Name == "s2" {
			return exec.Command(os.DevNull)
		}
		return shellCommand(t, "echo ready x; cat")
	}})
	defer c.killAll()
	if err := c.startAll(t.Context(), []string{"s1", "s2", "s3"}); err == nil || !strings.Contains(err.Error(), "s2") {
		t.Errorf("started: %v", err)
	}
}

func TestProcessOutput(t *testing.T) {
	p := &process{ready: make(chan struct{})}
	for _, line := range []string{"ready a", "ready b", "draining x", "hello", "drained"} {
		p.handleLine(line)
	}
	if p.address != "a" || p.drained {
		t.Errorf("address %q, drained %v", p.address, p.drained)
	}
	for _, odd := range []string{`"draining x"`, `"hello"`, `"drained"`} {
		if !strings.Contains(p.log.text(), odd) {
			t.Errorf("%s is not in the log: %s", odd, p.log.text())
		}
	}
}

func TestTailKeepsTheEnd(t *testing.T) {
	var log tail
	for i := range 10_000 {
		fmt.Fprintf(&log, "line %d\n", i)
	}
	if text := log.text(); len(text) > tailSize || !strings.HasSuffix(text, "line 9999") {
		t.Errorf("%d bytes, %.20q…", len(text), text)
	}
	if n, err := log.Write(make([]byte, 3*tailSize)); n != 3*tailSize || err != nil || len(log.bytes) != tailSize {
		t.Errorf("wrote %d, %v, keeps %d", n, err, len(log.bytes))
	}
}
