package harness

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/tandem-rpc/tandem/bench/load"
)

// endGrace is how long a peer may take to end after its standard input was closed.
const endGrace = 5 * time.Second

// errUnsupported is the error of a peer whose system does not support the cell.
var errUnsupported = errors.New("unsupported")

// peer is a running peer process. It is not safe for concurrent use. The end of its context
// kills it.
type peer struct {
	name   string
	cmd    *exec.Cmd
	cancel context.CancelFunc
	in     io.WriteCloser
	out    *bufio.Scanner
	stderr tail
}

// startPeer runs the program at path, with the command line of a runner before it unless
// that is empty.
func startPeer(ctx context.Context, runner []string, path string, args ...string) (*peer, error) {
	ctx, cancel := context.WithCancel(ctx)
	line := slices.Concat(runner, []string{path}, args)
	p := &peer{
		name:   filepath.Base(path) + " " + args[0],
		cmd:    exec.CommandContext(ctx, line[0], line[1:]...), //nolint:gosec // a peer that the harness built
		cancel: cancel,
	}
	p.cmd.Stderr = &p.stderr
	p.cmd.WaitDelay = endGrace
	err := p.start()
	if err != nil {
		cancel()
		return nil, fmt.Errorf("harness: starting %s: %w", p.name, err)
	}
	return p, nil
}

func (p *peer) start() error {
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	p.in, p.out = in, bufio.NewScanner(out)
	return p.cmd.Start()
}

// ask sends a command and waits for the event that answers it.
func (p *peer) ask(c load.Command, event string) (load.Report, error) {
	if err := json.NewEncoder(p.in).Encode(c); err != nil {
		return load.Report{}, fmt.Errorf("harness: telling %s to %s: %w", p.name, c.Op, err)
	}
	return p.expect(event)
}

// expect waits for the event, for as long as the peer's context lasts. The
// report has the figures that belong to the event.
func (p *peer) expect(event string) (load.Report, error) {
	var r load.Report
	if !p.out.Scan() {
		return r, fmt.Errorf("harness: %s ended, or took too long, before it was %q", p.name, event)
	}
	if err := json.Unmarshal(p.out.Bytes(), &r); err != nil {
		return r, fmt.Errorf("harness: %s printed %q, which is no report: %w", p.name, p.out.Text(), err)
	}
	switch r.Event {
	case event:
		if event == load.EventUsage && r.Usage == nil || event == load.EventResult && r.Result == nil {
			return r, fmt.Errorf("harness: %s reported %q without figures", p.name, event)
		}
		return r, nil
	case load.EventUnsupported:
		return r, fmt.Errorf("%w: %s", errUnsupported, r.Error)
	case load.EventFailed:
		return r, fmt.Errorf("harness: %s failed: %s", p.name, r.Error)
	}
	return r, fmt.Errorf("harness: %s reported %q, expected %q", p.name, r.Event, event)
}

// mark asks a server for its usage.
func (p *peer) mark() (load.Usage, error) {
	r, err := p.ask(load.Command{Op: load.OpMark}, load.EventUsage)
	if err != nil {
		return load.Usage{}, err
	}
	return *r.Usage, nil
}

// end closes the peer's standard input, which ends it, kills it if it does not end, and
// waits. The error contains its standard error.
func (p *peer) end() error {
	defer p.cancel()
	_ = p.in.Close() // it fails only if the peer has ended already
	kill := time.AfterFunc(endGrace, p.cancel)
	defer kill.Stop()
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("harness: %s: %w: %s", p.name, err, p.stderr)
	}
	return nil
}

// tail keeps the last bytes written to it.
type tail []byte

const tailSize = 2 << 10

func (t *tail) Write(b []byte) (int, error) {
	*t = append(*t, b...)
	*t = (*t)[max(0, len(*t)-tailSize):]
	return len(b), nil
}

func (t tail) String() string { return string(t) }
