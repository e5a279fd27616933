// Package instructions counts the instructions of a call. Not every machine
// shows its processor's counters, and times differ from run to run; valgrind's
// tool callgrind counts in software what a process executes, in user space and
// for each function, and finds nearly the same number each time. It simulates the
// processor's first and second cache besides, and counts what they do not have: a
// processor that waits for memory executes nothing.
//
// A process is many times slower under it. What happens by the clock,
// such as a timer's ticks, then falls to far fewer calls than it really does.
package instructions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/tandem-rpc/tandem/bench/harness"
	"github.com/tandem-rpc/tandem/bench/load"
)

// Settings are what a run counts. They are part of its report.
type Settings struct {
	Systems []string      `json:"systems"`
	Mode    harness.Mode  `json:"mode"` // harness.Shared; others are refused
	Callers int           `json:"callers"`
	Conns   int           `json:"conns"`
	Rounds  int           `json:"rounds"`
	Warmup  time.Duration `json:"warmup_ns"`
	Calls   int64         `json:"calls"`      // count at least so many
	Timeout time.Duration `json:"timeout_ns"` // of a sample
	Caches  Caches        `json:"caches"`     // that are simulated; Run finds them
}

// Side is what one process executed while it was counted.
type Side struct {
	Calls        int64          `json:"calls"` // as many as it encoded messages
	Instructions int64          `json:"instructions"`
	Missed       int64          `json:"missed"`    // reads and writes of data that were in neither cache
	Parts        map[Part]int64 `json:"parts"`     // instructions; together all
	Functions    []Function     `json:"functions"` // those with the most, the most first
}

// Function is what a function executed, without those that it calls.
type Function struct {
	Name         string `json:"name"`
	Instructions int64  `json:"instructions"`
}

// Sample is one system in one round.
type Sample struct {
	System string `json:"system"`
	Round  int    `json:"round"`
	Server Side   `json:"server"`
	Client Side   `json:"client"`
	Error  string `json:"error,omitempty"` // why there are no figures
}

// Report is the outcome of a run.
type Report struct {
	When     time.Time       `json:"when"`
	Machine  harness.Machine `json:"machine"`
	Valgrind string          `json:"valgrind"` // its version
	Settings Settings        `json:"settings"`
	Samples  []Sample        `json:"samples"`
}

// Failed returns how many samples have no figures.
func (r *Report) Failed() int {
	n := 0
	for _, s := range r.Samples {
		if s.Error != "" {
			n++
		}
	}
	return n
}

// Run counts every system in every round, each round beginning with another
// one, and writes a line to progress after each. A system that fails leaves its
// reason in its sample and does not end the run.
func Run(ctx context.Context, s Settings, progress io.Writer) (*Report, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	version, err := valgrind(ctx)
	if err != nil {
		return nil, err
	}
	s.Caches = cachesOf(sysCaches)
	// Code in C would bring threads that the Go runtime knows nothing of.
	built, err := harness.Build(ctx, s.Systems, "CGO_ENABLED=0")
	if err != nil {
		return nil, err
	}
	defer built.Remove()
	report := &Report{When: time.Now().UTC(), Machine: harness.ThisMachine(), Valgrind: version, Settings: s}
	for round := range s.Rounds {
		first := round % len(s.Systems)
		for _, system := range slices.Concat(s.Systems[first:], s.Systems[:first]) {
			sample := s.measure(ctx, built, system, round)
			if err := ctx.Err(); err != nil {
				return report, fmt.Errorf("instructions: interrupted in round %d: %w", round+1, err)
			}
			report.Samples = append(report.Samples, sample)
			fmt.Fprintf(progress, "%d/%d  %s\n", len(report.Samples), s.Rounds*len(s.Systems), sample)
		}
	}
	return report, nil
}

// check finds what cannot be meant.
func (s Settings) check() error {
	if s.Mode != harness.Shared {
		return fmt.Errorf("instructions: mode %q; only %q means something: callgrind makes a process many times slower, "+
			"and with a connection a caller the connections' timers and stacks that grow then count far too much", s.Mode, harness.Shared)
	}
	if len(s.Systems) == 0 || s.Callers < 1 || s.Conns < 1 || s.Rounds < 1 || s.Calls < 1 {
		return fmt.Errorf("instructions: nothing to count: %d systems, %d callers, %d connections, %d rounds, %d calls",
			len(s.Systems), s.Callers, s.Conns, s.Rounds, s.Calls)
	}
	return nil
}

// valgrind returns its version.
func valgrind(ctx context.Context) (string, error) {
	for _, tool := range []string{"valgrind", "vgdb"} {
		if _, err := exec.LookPath(tool); err != nil {
			return "", fmt.Errorf("instructions: valgrind counts them, and %s is missing; install it (on Debian: apt-get install valgrind): %w", tool, err)
		}
	}
	out, err := exec.CommandContext(ctx, "valgrind", "--version").Output()
	if err != nil {
		return "", fmt.Errorf("instructions: valgrind --version: %w", err)
	}
	return string(out[:max(0, len(out)-1)]), nil
}

// measure is a sample. What went wrong is in its Error.
func (s Settings) measure(ctx context.Context, built harness.Built, system string, round int) Sample {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	sample := Sample{System: system, Round: round}
	if err := s.run(ctx, built, &sample); err != nil {
		sample.Error = err.Error()
		if ctx.Err() != nil {
			sample.Error += " (" + ctx.Err().Error() + ")"
		}
	}
	return sample
}

// run starts server and client under callgrind, lets them count between two
// moments at which the client calls steadily, and reads what they counted.
func (s Settings) run(ctx context.Context, built harness.Built, sample *Sample) (err error) {
	dir, err := os.MkdirTemp("", "bench-instructions-")
	if err != nil {
		return fmt.Errorf("instructions: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	server, err := s.start(ctx, built, dir, sample.System, "server", "-listen=127.0.0.1:0")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.End()) }()
	ready, err := server.Expect(load.EventReady)
	if err != nil {
		return err
	}
	plan := load.Plan{Addrs: []string{ready.Addr}, Callers: s.Callers, Conns: s.Conns, Warmup: s.Warmup, Calls: s.Calls}
	client, err := s.start(ctx, built, dir, sample.System, plan.Args()...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.End()) }()
	result, err := steer(ctx, server, client)
	if err != nil {
		return err
	}
	return sample.read(dir, *result, s.Callers)
}

// start runs a peer under callgrind, which dumps to a file of dir that is
// called as the subcommand. Signals that stop goroutines would come many times
// as often for a call, and of several threads valgrind runs one at a time.
func (s Settings) start(ctx context.Context, built harness.Built, dir, system string, args ...string) (*harness.Peer, error) {
	out := filepath.Join(dir, args[0])
	return built.StartUnder(ctx, []string{
		"env", "GODEBUG=asyncpreemptoff=1", "GOMAXPROCS=1", load.Emulated + "=1",
		"valgrind", "--tool=callgrind", "--callgrind-out-file=" + out, "--log-file=" + out + ".log",
		"--cache-sim=yes", "--D1=" + s.Caches.First, "--LL=" + s.Caches.Second,
	}, system, args...)
}

// steer sets the counts to zero once the client is warm, and dumps them when it
// has made its calls.
func steer(ctx context.Context, server, client *harness.Peer) (*load.Result, error) {
	if _, err := client.Expect(load.EventWarm); err != nil {
		return nil, err
	}
	if err := tell(ctx, "zero", server, client); err != nil {
		return nil, err
	}
	if _, err := client.Ask(load.Command{Op: load.OpStart}, load.EventMeasured); err != nil {
		return nil, err
	}
	if err := tell(ctx, "dump", server, client); err != nil {
		return nil, err
	}
	r, err := client.Ask(load.Command{Op: load.OpStop}, load.EventResult)
	return r.Result, err
}

// tell has callgrind obey a command in each peer, and waits until it has.
func tell(ctx context.Context, command string, peers ...*harness.Peer) error {
	for _, p := range peers {
		cmd := exec.CommandContext(ctx, "vgdb", fmt.Sprintf("--pid=%d", p.ID()), command)
		cmd.WaitDelay = time.Second
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("instructions: vgdb %s: %w: %s", command, err, out)
		}
	}
	return nil
}

// read reads the two dumps. The client knows how many calls it made between
// start and end; the dumps begin a little earlier and end a little later.
func (s *Sample) read(dir string, made load.Result, callers int) error {
	if made.Failures > 0 {
		return fmt.Errorf("instructions: %d calls failed, the first with: %s", made.Failures, made.FirstError)
	}
	for name, side := range map[string]*Side{"server": &s.Server, "client": &s.Client} {
		f, err := os.Open(filepath.Join(dir, name+".1")) // callgrind numbers its dumps
		if err != nil {
			return fmt.Errorf("instructions: callgrind left no dump of the %s: %w", name, err)
		}
		p, err := ReadProfile(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
		*side = sideOf(p)
		if side.Calls+int64(callers) < made.Calls {
			return fmt.Errorf("instructions: callgrind saw %d calls in the %s, of which the client made %d", side.Calls, name, made.Calls)
		}
	}
	return nil
}

// encoding is a function that each side calls once a call, and that the
// compiler does not inline: it is called as often as calls were made.
const encoding = module + "/bench/message.(*BenchmarkMessage).MarshalToSizedBufferVT"

// most is how many functions of a side a report keeps.
const most = 60

// sideOf sorts a profile.
func sideOf(p *Profile) Side {
	s := Side{Calls: p.Calls[encoding], Instructions: p.Total, Missed: p.Missed, Parts: map[Part]int64{}}
	for name, n := range p.Self {
		s.Parts[partOf(name)] += n
		s.Functions = append(s.Functions, Function{name, n})
	}
	slices.SortFunc(s.Functions, func(a, b Function) int {
		return cmp.Or(cmp.Compare(b.Instructions, a.Instructions), cmp.Compare(a.Name, b.Name))
	})
	s.Functions = s.Functions[:min(most, len(s.Functions))]
	return s
}
