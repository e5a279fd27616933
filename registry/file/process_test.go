//go:build unix

package file

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// process is a server in another process.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	in   io.Closer
	says string // its first line of output
}

// spawn starts a process and waits for it to register, or fail to.
func spawn(t *testing.T, dir, id string) *process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: exec.CommandContext(t.Context(), exe)}
	p.cmd.Env = append(os.Environ(), childEnv+"="+dir+" "+id)
	in, err1 := p.cmd.StdinPipe()
	out, err2 := p.cmd.StdoutPipe()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.in = in
	t.Cleanup(func() { p.kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the child said %q and ended: %v", line, err)
	}
	p.says = strings.TrimSpace(line)
	return p
}

// kill kills the process with SIGKILL and waits for its end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// leave makes the process close its registration and exit, and waits for that.
func (p *process) leave() {
	p.t.Helper()
	p.in.Close()
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("the child ended with %v", err)
	}
}

// A killed process is off the list within a second, with the default poll.
func TestKilledProcessIsGone(t *testing.T) {
	dir := t.TempDir()
	a := spawn(t, dir, "a")
	spawn(t, dir, "b")
	e := watchDir(t, New(dir))
	e.sees("a", "b")
	a.kill()
	if took := e.sees("b"); took > time.Second {
		t.Errorf("gone after %v", took)
	}
	again := spawn(t, dir, "a")
	e.sees("a", "b")
	again.leave()
	e.sees("b")
}

func TestTwoProcessesOneID(t *testing.T) {
	dir := t.TempDir()
	a := spawn(t, dir, "a")
	if a.says != "registered" {
		t.Fatal(a.says)
	}
	if b := spawn(t, dir, "a"); !strings.Contains(b.says, `registering "a": another live server has registered the same id`) {
		t.Errorf("the second says %q", b.says)
	}
	e := watchDir(t, New(dir))
	e.sees("a")
	a.kill()
	if c := spawn(t, dir, "a"); c.says != "registered" {
		t.Errorf("the third says %q", c.says)
	}
}

// A stopped process stays listed, and another can't register its ID.
func TestStoppedProcessStaysListed(t *testing.T) {
	dir := t.TempDir()
	a := spawn(t, dir, "a")
	if err := a.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(a.cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("not stopped: %v, %v", status, err)
	}
	r := New(dir)
	watchDir(t, r).sees("a")
	if _, err := r.Register(t.Context(), instance("a")); err == nil {
		t.Error("its ID was taken")
	}
}

// The next process that registers removes the files of dead processes, and no other
// files.
func TestFilesOfDeadProcessesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	spawn(t, dir, "dead").kill()
	put(t, dir, "dead.tmp", "half writ")
	spawn(t, dir, "alive")
	put(t, dir, "composer.json", `{"name": "somebody else's"}`)
	put(t, dir, "composer.lock", "")
	put(t, dir, "lonely.lock", "")
	register(t, New(dir), instance("new"))
	want := "alive.json alive.lock composer.json composer.lock lonely.lock new.json new.lock"
	if got := strings.Join(files(t, dir), " "); got != want {
		t.Errorf("left: %s\nwant: %s", got, want)
	}
}

// Processes that change one document at once, some of which are killed, lose no change, and
// a killed one leaves no lock behind.
func TestProcessesSwap(t *testing.T) {
	dir := t.TempDir()
	const processes, marks = 3, 40
	var cmds []*exec.Cmd
	for i := range processes + 1 {
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), exe)
		n := marks
		if i == processes {
			n = 1 << 20 // until it is killed
		}
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %d", writerEnv, dir, i, n))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		cmds = append(cmds, cmd)
	}
	for i, cmd := range cmds[:processes] {
		if err := cmd.Wait(); err != nil {
			t.Errorf("writer %d: %v", i, err)
		}
	}
	killed := cmds[processes]
	_ = killed.Process.Kill()
	_ = killed.Wait()
	r := New(dir)
	text, err := r.ReadDocument(t.Context(), "/d")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.SwapDocument(t.Context(), "/d", text, nil); err != nil {
		t.Errorf("after a writer was killed: %v", err)
	}
	seen := map[string]int{}
	for mark := range strings.FieldsSeq(string(text)) {
		seen[mark]++
	}
	for i := range processes {
		for n := range marks {
			if mark := fmt.Sprintf("%d.%d", i, n); seen[mark] != 1 {
				t.Errorf("the mark %s is there %d times", mark, seen[mark])
			}
		}
	}
}
