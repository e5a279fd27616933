package load

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// The commands of the harness to a peer, one JSON value a line.
const (
	OpMark  = "mark"  // to a server: report your usage so far
	OpStart = "start" // to a client: begin to measure
	OpStop  = "stop"  // to a client: end, and report
)

// The events that a peer reports, one JSON value a line.
const (
	EventReady       = "ready"       // a server listens at Addr
	EventUsage       = "usage"       // a server's Usage
	EventWarm        = "warm"        // a client has warmed up and goes on calling
	EventMeasured    = "measured"    // a client has measured and goes on calling
	EventResult      = "result"      // a client's Result
	EventUnsupported = "unsupported" // the system does not do that; Error says why
	EventFailed      = "failed"      // the peer ends; Error says why
)

// Command is a line to a peer.
type Command struct {
	Op string `json:"op"`
}

// Report is a line from a peer.
type Report struct {
	Event  string  `json:"event"`
	Addr   string  `json:"addr,omitempty"`
	Error  string  `json:"error,omitempty"`
	Usage  *Usage  `json:"usage,omitempty"`
	Result *Result `json:"result,omitempty"`
}

// control is a peer's end of its pipes to the harness.
type control struct {
	in  *bufio.Scanner
	out *json.Encoder
}

func newControl(in io.Reader, out io.Writer) *control {
	return &control{in: bufio.NewScanner(in), out: json.NewEncoder(out)}
}

func (c *control) report(r Report) error {
	if err := c.out.Encode(r); err != nil {
		return fmt.Errorf("load: reporting %q to the harness: %w", r.Event, err)
	}
	return nil
}

// next returns the next command, or io.EOF if the harness is gone: the peer must end then.
func (c *control) next() (cmd Command, err error) {
	if !c.in.Scan() {
		if err := c.in.Err(); err != nil {
			return cmd, err
		}
		return cmd, io.EOF
	}
	if err := json.Unmarshal(c.in.Bytes(), &cmd); err != nil {
		return cmd, fmt.Errorf("load: command %q: %w", c.in.Text(), err)
	}
	return cmd, nil
}

// expect waits for one command.
func (c *control) expect(op string) error {
	cmd, err := c.next()
	if err == nil && cmd.Op != op {
		err = fmt.Errorf("load: the harness said %q, expected %q", cmd.Op, op)
	}
	return err
}
