package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// errNotReady means that a server does not listen or that a client can't make a call.
var errNotReady = errors.New("a process did not become ready")

// process is a child process in one of the lab's network namespaces.
type process struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr *os.File
}

// startProcess starts the lab's binary on host, with a role and its arguments. Its standard
// error is appended to the file log. files limits its open files; 0 means the lab's own limit.
func (r *rig) startProcess(host, log string, files int, args ...string) (*process, error) {
	self := r.settings.clock
	if !r.cell.Clock {
		var err error
		if self, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	stderr, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644) //nolint:gosec // the lab's own directory
	if err != nil {
		return nil, err
	}
	words := []string{"netns", "exec", host}
	if files > 0 {
		words = append(words, "prlimit", "--nofile="+strconv.Itoa(files))
	}
	if r.cell.Pinned {
		words = append(words, "taskset", "-c", processorsOf(host == r.net.client))
	}
	words = append(words, self)
	cmd := exec.Command("ip", append(words, args...)...) //nolint:gosec // this program, which ip and prlimit execute
	cmd.Stderr = stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL} // only the lab gets an interrupt
	p := &process{cmd: cmd, stderr: stderr}
	if p.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	return p, cmd.Start()
}

// processorsOf returns the processors of a pinned process, for taskset: 0 for a server, the
// others for the client.
func processorsOf(client bool) string {
	if n := runtime.NumCPU(); client && n > 1 {
		return fmt.Sprintf("1-%d", n-1)
	}
	return "0"
}

// startServer starts server i and waits until it listens.
func (r *rig) startServer(i int) (*process, error) {
	log := filepath.Join(r.dir, fmt.Sprintf("server%d.log", i))
	plan := serverPlan{
		System: r.arm.System, Number: i, Addr: serverAddr(i) + ":9000", Journal: serverJournal(r.dir, i),
		Registry: r.registryTarget(), Slowness: 1, MaxAge: r.cell.MaxAge, Burden: r.cell.Burden, Spoil: r.settings.spoil,
	}
	if r.store != nil {
		plan.Store = r.store.target
	}
	if i == 0 && r.cell.Slow > 0 && !r.arm.Control {
		plan.Slowness = r.cell.Slow
	}
	if r.cell.Chain && i < r.cell.Instances-1 {
		plan.Next, plan.Burden = serverAddr(i+1)+":9000", ""
	}
	text, err := json.Marshal(plan)
	if err != nil {
		return nil, err
	}
	p, err := r.startProcess(r.net.host(i), log, r.cell.Files, roleServe, string(text))
	if err != nil {
		return nil, err
	}
	return p, p.expectReady(log)
}

func serverJournal(dir string, i int) string {
	return filepath.Join(dir, fmt.Sprintf("server%d.txt", i))
}

// startClient starts the client and waits until it is ready.
func (r *rig) startClient(p plan) (*process, error) {
	log := filepath.Join(r.dir, "client.log")
	c, err := r.startProcess(r.net.client, log, 0, roleLoad)
	if err != nil {
		return nil, err
	}
	if err := json.NewEncoder(c.in).Encode(p); err != nil {
		c.kill()
		return nil, err
	}
	return c, c.expectReady(log)
}

func (p *process) expectReady(log string) error {
	line, err := p.out.ReadString('\n')
	if err == nil && strings.TrimSpace(line) == "ready" {
		return nil
	}
	p.kill()
	text, _ := os.ReadFile(log) //nolint:gosec // the lab's own file; if it can't be read, the error has no details
	return fmt.Errorf("%w: %s", errNotReady, strings.TrimSpace(string(text)))
}

// kill sends SIGKILL and waits until the process has ended.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	_ = p.cmd.Wait()         // the error says only that the process was killed
	_ = p.stderr.Close()     // the process has ended and writes nothing more
}

// terminate sends SIGTERM, on which servers shut down gracefully, and waits until the process
// has ended.
func (p *process) terminate() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	defer func() { _ = p.stderr.Close() }() // the process has ended and writes nothing more
	return p.cmd.Wait()
}

// pause stops the process with SIGSTOP until resume, and waits until the kernel reports the
// stop.
func (p *process) pause() error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return p.awaitState('T')
}

func (p *process) resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// awaitState waits up to about 100 ms until the kernel reports that the process is in state
// want.
func (p *process) awaitState(want byte) error {
	var state byte
	for range 100 {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
		if err != nil {
			return err
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		if state = rest[0]; state == want {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return fmt.Errorf("process %d is in state %c, want %c", p.cmd.Process.Pid, state, want)
}
