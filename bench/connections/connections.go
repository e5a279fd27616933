// Package connections measures what a connection costs a server that holds
// very many: memory while it is idle, memory after a call, and how fast calls
// are on a few of them.
package connections

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/tandem-rpc/tandem/bench/harness"
	"github.com/tandem-rpc/tandem/bench/load"
)

// Settings are what a run measures. They are part of its report.
type Settings struct {
	Systems    []string      `json:"systems"`
	Sizes      []int         `json:"sizes"`       // connections a server holds; each is a step of its own
	PerProcess int           `json:"per_process"` // connections a client process holds at most
	Pace       int           `json:"pace"`        // connections opened a second, of all clients
	Share      float64       `json:"share"`       // part of the connections that calls in the end
	Rate       int           `json:"rate"`        // calls a second they make; 0 is the closed loop
	Warmup     time.Duration `json:"warmup_ns"`
	Duration   time.Duration `json:"duration_ns"`
	Timeout    time.Duration `json:"timeout_ns"` // of a step
}

// Step is one server that held so many connections. Memory is the server's.
type Step struct {
	System      string      `json:"system"`
	Asked       int         `json:"asked"`       // connections
	Connections int         `json:"connections"` // held in fact
	Clients     int         `json:"clients"`     // processes
	Hosts       int         `json:"hosts"`       // loopback addresses of the server
	Empty       load.Memory `json:"empty"`       // before the first connection
	Idle        load.Memory `json:"idle"`        // before the first call
	Called      load.Memory `json:"called"`      // after a call on each
	After       load.Memory `json:"after"`       // after the calls of some
	EmptySystem Kernel      `json:"empty_kernel"`
	IdleSystem  Kernel      `json:"idle_kernel"`
	Callers     int         `json:"callers"` // connections that called in the end
	Calls       load.Result `json:"calls"`
	Failures    int64       `json:"failures"` // of the first calls
	Error       string      `json:"error,omitempty"`
}

// Report is the outcome of a run.
type Report struct {
	When     time.Time       `json:"when"`
	Machine  harness.Machine `json:"machine"`
	Settings Settings        `json:"settings"`
	Notes    []string        `json:"notes"` // what of the system's limits was raised, or stood in the way
	Steps    []Step          `json:"steps"`
}

// Failed returns how many steps have no figures.
func (r *Report) Failed() int {
	n := 0
	for _, s := range r.Steps {
		if s.Error != "" {
			n++
		}
	}
	return n
}

// spare is how many files a process opens besides its connections.
const spare = 64

// Run measures every size with every system and writes a line to progress
// after each. It raises the limits of open files as far as it may, and holds
// fewer connections where it may not; the report's notes say so. A step that
// fails leaves its reason and does not end the run.
func Run(ctx context.Context, s Settings, progress io.Writer) (report *Report, err error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	built, err := harness.Build(ctx, s.Systems)
	if err != nil {
		return nil, err
	}
	defer built.Remove()
	report = &Report{When: time.Now(), Machine: harness.ThisMachine(), Settings: s}
	allowed, notes, restore := raise(slices.Max(s.Sizes) + spare)
	defer func() { err = errors.Join(err, restore()) }()
	report.Notes = notes
	for _, size := range s.Sizes {
		for _, system := range s.Systems {
			step := s.measure(ctx, built, system, min(size, allowed-spare))
			if err := ctx.Err(); err != nil {
				return report, fmt.Errorf("connections: interrupted: %w", err)
			}
			step.Asked = size
			report.Steps = append(report.Steps, step)
			fmt.Fprintln(progress, step)
		}
	}
	return report, nil
}

// check finds what cannot be meant.
func (s Settings) check() error {
	if len(s.Systems) == 0 || len(s.Sizes) == 0 || slices.Min(s.Sizes) < 1 {
		return fmt.Errorf("connections: %d systems with %v connections: there must be one of each", len(s.Systems), s.Sizes)
	}
	if s.PerProcess < 1 || s.Pace < 1 || s.Share < 0 || s.Share > 1 {
		return fmt.Errorf("connections: %d a process, %d a second, a share of %v: the first two must be positive and the share between 0 and 1",
			s.PerProcess, s.Pace, s.Share)
	}
	return nil
}

// measure is a step. What went wrong is in its Error.
func (s Settings) measure(ctx context.Context, built harness.Built, system string, n int) Step {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	hosts := (n + perHost - 1) / perHost
	r := run{Settings: s, built: built, step: Step{System: system, Connections: n, Hosts: hosts}}
	if err := r.measure(ctx); err != nil {
		r.step.Error = err.Error()
		if ctx.Err() != nil {
			r.step.Error += " (" + ctx.Err().Error() + ")"
		}
	}
	return r.step
}

// perHost is how many connections go to one address of the server: fewer than
// the 28,000 ports that a Linux client has by default for each.
const perHost = 20000

// run is a step being measured.
type run struct {
	Settings
	built   harness.Built
	step    Step
	server  *harness.Peer
	clients []*harness.Peer
}

func (r *run) measure(ctx context.Context) (err error) {
	r.server, err = r.built.Start(ctx, r.step.System, "server", fmt.Sprintf("-hosts=%d", r.step.Hosts))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.server.End()) }()
	ready, err := r.server.Expect(load.EventReady)
	if err != nil {
		return err
	}
	if r.step.Empty, err = r.memory(); err != nil {
		return err
	}
	r.step.EmptySystem = readKernel()
	defer func() { err = errors.Join(err, r.endClients()) }()
	if err := r.connect(ctx, ready.Addr); err != nil {
		return err
	}
	r.step.IdleSystem = readKernel()
	return r.call()
}

// connect starts the clients and waits until the server holds all connections.
func (r *run) connect(ctx context.Context, addr string) error {
	n := r.step.Connections
	r.step.Clients = (n + r.PerProcess - 1) / r.PerProcess
	for i := range r.step.Clients {
		first, end := n*i/r.step.Clients, n*(i+1)/r.step.Clients
		h := load.Hold{
			Plan: load.Plan{Warmup: r.Warmup, Duration: r.Duration, Rate: r.Rate},
			Addr: addr, Hosts: r.step.Hosts, First: first, Count: end - first, Pace: r.Pace,
		}
		client, err := r.built.Start(ctx, r.step.System, h.Args()...)
		if err != nil {
			return err
		}
		r.clients = append(r.clients, client)
		if _, err := client.Expect(load.EventHeld); err != nil {
			return err
		}
	}
	return r.await(ctx, n)
}

// await waits until the server has n sockets more than when it was empty: some
// systems go on connecting when they have said that they have a connection.
func (r *run) await(ctx context.Context, n int) error {
	const patience, every = 20 * time.Second, 500 * time.Millisecond
	deadline := time.Now().Add(patience)
	for {
		time.Sleep(every) // also gives handshakes time to end
		memory, err := r.memory()
		if err != nil {
			return err
		}
		held := memory.Sockets - r.step.Empty.Sockets
		if held == n {
			r.step.Idle = memory
			return nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return fmt.Errorf("connections: the server holds %d of %d connections", held, n)
		}
	}
}

// call makes a call on every connection and then some on a few.
func (r *run) call() (err error) {
	for _, c := range r.clients {
		answer, err := c.Ask(load.Command{Op: load.OpEach}, load.EventResult)
		if err != nil {
			return err
		}
		r.step.Failures += answer.Result.Failures
	}
	if r.step.Called, err = r.memory(); err != nil {
		return err
	}
	if r.step.Failures > 0 {
		return fmt.Errorf("connections: %d of %d first calls failed", r.step.Failures, r.step.Connections)
	}
	if r.step.Callers = min(int(float64(r.step.Connections)*r.Share), r.PerProcess); r.step.Callers == 0 {
		return nil
	}
	answer, err := r.clients[0].Ask(load.Command{Op: load.OpSome, N: r.step.Callers}, load.EventResult)
	if err != nil {
		return err
	}
	r.step.Calls = *answer.Result
	if n := r.step.Calls.Failures; n > 0 {
		return fmt.Errorf("connections: %d of %d calls failed, the first with: %s", n, n+r.step.Calls.Calls, r.step.Calls.FirstError)
	}
	r.step.After, err = r.memory()
	return err
}

func (r *run) memory() (load.Memory, error) {
	answer, err := r.server.Ask(load.Command{Op: load.OpSettle}, load.EventMemory)
	if err != nil {
		return load.Memory{}, err
	}
	return *answer.Memory, nil
}

func (r *run) endClients() error {
	var all error
	for _, c := range r.clients {
		all = errors.Join(all, c.End())
	}
	return all
}
