// Package harness builds the systems under test, runs each cell of the bench
// as a server process and a client process, and reports what both used.
//
// Rounds alternate between the systems, so that what the machine does beside
// the bench falls on all of them, and a ratio is taken within its round.
package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/tandem-rpc/tandem/bench/java"
	"github.com/tandem-rpc/tandem/bench/load"
)

// Settings are what a run measures. They are part of its report.
type Settings struct {
	Systems []string `json:"systems"` // folders of bench/peers, with options (see load.Options), or in Java
	Modes   []Mode   `json:"modes"`
	Callers []int    `json:"callers"`

	Deployments []Deployment    `json:"deployments,omitempty"` // none means Same
	Works       []time.Duration `json:"works_ns,omitempty"`    // of the handlers; none means 0
	Addrs       []string        `json:"addrs,omitempty"`       // servers of the deployment Elsewhere

	Rates     []int         `json:"rates,omitempty"`    // calls a second; none means the closed loop
	Percents  []int         `json:"percents,omitempty"` // rates as parts of the slowest system's peak, which Run measures
	Peaks     []Cell        `json:"peaks,omitempty"`    // those peaks, as rates; if empty, Run fills them in
	Conns     int           `json:"conns"`              // in the shared mode
	Rounds    int           `json:"rounds"`
	Warmup    time.Duration `json:"warmup_ns"`
	Duration  time.Duration `json:"duration_ns"` // measure at least so long,
	Calls     int64         `json:"calls"`       // and at least so many calls
	Timeout   time.Duration `json:"timeout_ns"`  // a cell that takes longer has failed
	Baselines []string      `json:"baselines"`   // systems that the others are divided by

	JavaWarmup time.Duration `json:"java_warmup_ns,omitempty"` // instead of Warmup, for systems in Java, if it is longer

	// First is the number of the first round: more than 0 when the rounds
	// before it are in a report already.
	First int `json:"-"`
}

// Sample is one system in one cell in one round.
type Sample struct {
	System      string       `json:"system"`
	Cell        Cell         `json:"cell"`
	Round       int          `json:"round"`
	Client      load.Result  `json:"client"`
	Server      load.Usage   `json:"server"`            // of all servers together, each in its measured interval; zero if unknown
	Servers     []load.Usage `json:"servers,omitempty"` // of each, if there are several
	Unsupported string       `json:"unsupported,omitempty"`
	Error       string       `json:"error,omitempty"` // why there are no figures
}

// OK tells whether the sample has figures.
func (s Sample) OK() bool { return s.Error == "" && s.Unsupported == "" }

// Kind is what reports of this package are called among other kept results.
const Kind = "calls"

// Report is the outcome of a run.
type Report struct {
	Kind     string    `json:"kind"` // Kind
	When     time.Time `json:"when"`
	Revision string    `json:"revision"` // the commit that was measured; see Revision
	Machine  Machine   `json:"machine"`
	Topology []string  `json:"topology"` // what the deployments really were
	Settings Settings  `json:"settings"`
	Systems  []System  `json:"systems"`         // how they are set up, in the settings' order
	Peaks    []Sample  `json:"peaks,omitempty"` // in the closed loop, from which Settings.Peaks are
	Samples  []Sample  `json:"samples"`

	Missing map[string]string `json:"missing,omitempty"` // systems that this machine cannot build, and why
}

// Failed returns how many samples, those of peaks included, have no figures
// although their system supports the cell, or calls that failed.
func (r *Report) Failed() int {
	n := 0
	for _, s := range slices.Concat(r.Peaks, r.Samples) {
		if s.failed() {
			n++
		}
	}
	return n
}

// failures says of each what went wrong, but of those of systems that are missing,
// which are said once.
func (r *Report) failures() (lines []string) {
	say := func(what string, s Sample) {
		if missing := s.Error != "" && s.Error == r.Missing[s.System]; s.failed() && !missing {
			lines = append(lines, fmt.Sprintf("%s: %s", what, s))
		}
	}
	for _, s := range r.Peaks {
		say("peak", s)
	}
	for _, s := range r.Samples {
		say(fmt.Sprintf("round %d", s.Round+1), s)
	}
	return lines
}

// failed tells whether something went wrong: a sample some of whose calls failed
// has figures all the same.
func (s Sample) failed() bool { return s.Error != "" || s.Client.Failures > 0 }

// Run measures every cell in every round and writes a line to progress after
// each sample. A system that fails leaves its reason in the sample and does not
// end the run. An error means that nothing could be measured; or that ctx has
// ended, and then the report holds what was measured before.
func Run(ctx context.Context, s Settings, progress io.Writer) (report *Report, err error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	built, err := Build(ctx, s.Systems)
	if err != nil {
		return nil, err
	}
	defer built.Remove()
	if report, err = newReport(ctx, s); err != nil {
		return nil, err
	}
	report.Missing = built.missing
	nets, err := s.networks(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, nets.tearDown()) }()
	r := run{s, built, nets, progress, newEstimate(s)}
	if err := r.findPeaks(ctx, report); err != nil {
		return report, err
	}
	return report, r.rounds(ctx, report)
}

// newReport is the report before anything has been measured.
func newReport(ctx context.Context, s Settings) (*Report, error) {
	revision, err := Revision(ctx)
	if err != nil {
		return nil, err
	}
	systems, err := describe(ctx, s.Systems)
	if err != nil {
		return nil, err
	}
	machine := ThisMachine()
	if slices.ContainsFunc(s.Systems, java.Is) {
		machine.Java = java.Version(ctx)
	}
	return &Report{
		Kind: Kind, When: time.Now().UTC(), Revision: revision, Machine: machine, Topology: s.topology(), Settings: s, Systems: systems,
	}, nil
}

// run is a Run that goes on.
type run struct {
	settings Settings
	built    Built
	nets     networks
	progress io.Writer
	estimate *estimate
}

// rounds adds the samples of all rounds to the report. The error is that of ctx.
func (r run) rounds(ctx context.Context, report *Report) error {
	first := r.settings.First
	for round := first; round < first+r.settings.Rounds; round++ {
		for _, cell := range report.Settings.cells() {
			for _, name := range r.settings.order(round) {
				sample, err := r.measure(ctx, name, cell, round)
				if err != nil {
					return fmt.Errorf("harness: interrupted in round %d: %w", round+1, err)
				}
				report.Samples = append(report.Samples, sample)
			}
		}
	}
	return nil
}

// measure measures and writes a line of progress. The error is that of ctx.
func (r run) measure(ctx context.Context, system string, cell Cell, round int) (Sample, error) {
	sample := r.built.measure(ctx, system, r.nets[cell.Deployment], r.settings, cell)
	if err := ctx.Err(); err != nil {
		return sample, err
	}
	sample.Round = round
	fmt.Fprintf(r.progress, "%s  %s\n", r.estimate.next(), sample)
	return sample, nil
}

// order is the systems beginning with another one each round, so that none is
// always the first after a change of cell.
func (s Settings) order(round int) []string {
	first := round % len(s.Systems)
	return slices.Concat(s.Systems[first:], s.Systems[:first])
}

// plan is what a client does in the cell.
func (s Settings) plan(c Cell, addrs []string) load.Plan {
	p := load.Plan{Addrs: addrs, Callers: c.Callers, Warmup: s.Warmup, Duration: s.Duration, Calls: s.Calls, Rate: c.Rate}
	if c.Mode == Shared {
		p.Conns = s.Conns
	}
	return p
}

// warmup is how long a system runs before it is measured.
func (s Settings) warmup(system string) time.Duration {
	if java.Is(system) {
		return max(s.Warmup, s.JavaWarmup)
	}
	return s.Warmup
}
