package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tandem-rpc/tandem/transport"
)

// process is a server process. A goroutine reads its output until it ends.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer // the process ends when it is closed
	log   tail
	ready chan struct{} // closed when it has reported that it is ready
	done  chan struct{} // closed when it has ended

	mu       sync.Mutex
	address  string
	metrics  string // address of its metrics; "" if it has none
	running  int    // running calls when it began to drain
	left     int    // running calls when it had drained
	drained  bool   // it has reported that it has drained
	readyYet bool

	err error // how it ended; valid when done is closed
}

// spawn starts a process.
func spawn(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, ready: make(chan struct{}), done: make(chan struct{})}
	cmd.Stderr = &p.log
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p.stdin = stdin
	go p.listen(stdout)
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// listen reads the output of the process, and waits for its end.
func (p *process) listen(stdout io.Reader) {
	defer close(p.done)
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		p.handleLine(lines.Text())
	}
	_, _ = io.Copy(io.Discard, stdout) // a line too long to be ours must not block it
	p.err = p.cmd.Wait()
}

// handleLine handles one line of output. See [Role] for the lines.
func (p *process) handleLine(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	word, rest, _ := strings.Cut(line, " ")
	var err error
	switch word {
	case "ready":
		if !p.readyYet {
			p.address, p.readyYet = rest, true
			close(p.ready)
		}
	case "metrics":
		p.metrics = rest
	case "draining":
		_, err = fmt.Sscan(rest, &p.running)
	case "drained":
		_, err = fmt.Sscan(rest, &p.left)
		p.drained = err == nil
	default:
		err = errors.New("unknown")
	}
	if err != nil {
		fmt.Fprintf(&p.log, "said %q: %v\n", line, err)
	}
}

// kill ends the process at once and waits until it is gone.
func (p *process) kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("killing process %d: %w", p.pid(), err)
	}
	_ = p.stdin.Close() // it may be closed already
	return p.ended(context.Background(), killTime)
}

// stop makes the process shut down gracefully and waits until it has ended. If it does not end
// within patience, it is killed.
func (p *process) stop(ctx context.Context, patience time.Duration) error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("asking process %d to end: %w%s", p.pid(), err, p.said())
	}
	if err := p.ended(ctx, patience); err != nil {
		return errors.Join(err, p.kill())
	}
	if p.err != nil {
		return fmt.Errorf("process %d: %w%s", p.pid(), p.err, p.said())
	}
	return nil
}

// ended waits until the process has ended, at most for patience.
func (p *process) ended(ctx context.Context, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("process %d has not ended: %w%s", p.pid(), ctx.Err(), p.said())
	}
}

// metricsAt returns the address of the process's metrics, "" if it has none.
func (p *process) metricsAt() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.metrics
}

// drainReport returns what the process has reported about its drain.
func (p *process) drainReport() (running, left int, acknowledged bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running, p.left, p.drained
}

// listening reports whether connections are still accepted at the process's address.
func (p *process) listening(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	p.mu.Lock()
	address := p.address
	p.mu.Unlock()
	c, err := transport.TCP().Dial(ctx, address)
	if err != nil {
		return false
	}
	_ = c.Close() // the connection is not used
	return true
}

// said returns the end of the process's standard error, as a suffix of an error text.
func (p *process) said() string {
	if text := p.log.text(); text != "" {
		return "; it said: " + text
	}
	return ""
}

// tail keeps the last bytes written to it. It is safe for concurrent use.
type tail struct {
	mu    sync.Mutex
	bytes []byte
}

const tailSize = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bytes = append(t.bytes, p[max(0, len(p)-tailSize):]...)
	if extra := len(t.bytes) - tailSize; extra > 0 {
		t.bytes = append(t.bytes[:0], t.bytes[extra:]...)
	}
	return len(p), nil
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.bytes))
}
