// Package harness builds the systems under test, runs each cell of the bench
// as a server process and a client process, and reports what both used.
//
// Rounds alternate between the systems, so that other load of the machine affects all of
// them, and a ratio is taken within its round.
package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/tandem-rpc/tandem/bench/load"
)

// Settings are what a run measures. They are part of its report.
type Settings struct {
	Systems []string `json:"systems"` // folders of bench/peers, with options (see load.Options)
	Modes   []Mode   `json:"modes"`
	Callers []int    `json:"callers"`

	Deployments []Deployment    `json:"deployments,omitempty"` // none means Same
	Works       []time.Duration `json:"works_ns,omitempty"`    // work of the handlers; none means 0
	Addrs       []string        `json:"addrs,omitempty"`       // servers of the deployment Elsewhere

	Rates     []int         `json:"rates,omitempty"` // calls a second; none means the closed loop
	Conns     int           `json:"conns"`           // connections in the shared mode
	Rounds    int           `json:"rounds"`
	Warmup    time.Duration `json:"warmup_ns"`
	Duration  time.Duration `json:"duration_ns"` // least duration of a measurement
	Calls     int64         `json:"calls"`       // least number of calls of a measurement
	Timeout   time.Duration `json:"timeout_ns"`  // a cell that takes longer has failed
	Baselines []string      `json:"baselines"`   // systems that the others are divided by
}

// Sample is one system in one cell in one round.
type Sample struct {
	System      string      `json:"system"`
	Cell        Cell        `json:"cell"`
	Round       int         `json:"round"`
	Client      load.Result `json:"client"`
	Server      load.Usage  `json:"server"` // of all servers together, each in its measured interval; zero if unknown
	Unsupported string      `json:"unsupported,omitempty"`
	Error       string      `json:"error,omitempty"` // why there are no figures
}

// OK reports whether the sample has figures.
func (s Sample) OK() bool { return s.Error == "" && s.Unsupported == "" }

// Kind identifies reports of this package among other kept results.
const Kind = "calls"

// Report is the outcome of a run.
type Report struct {
	Kind     string    `json:"kind"` // Kind
	When     time.Time `json:"when"`
	Revision string    `json:"revision"` // the commit that was measured; see revision
	Machine  Machine   `json:"machine"`
	Topology []string  `json:"topology"` // where the processes of each deployment ran
	Settings Settings  `json:"settings"`
	Samples  []Sample  `json:"samples"`
}

// Failed returns how many samples have failed calls, or no figures although their system
// supports the cell.
func (r *Report) Failed() int { return len(r.Failures()) }

// Failures returns a line for each failure.
func (r *Report) Failures() (lines []string) {
	for _, s := range r.Samples {
		if s.failed() {
			lines = append(lines, fmt.Sprintf("round %d: %s", s.Round+1, s))
		}
	}
	return lines
}

// failed reports whether calls failed or there is an error: a sample with some failed calls
// still has figures.
func (s Sample) failed() bool { return s.Error != "" || s.Client.Failures > 0 }

// Run measures every cell in every round and writes a line to progress after each sample. A
// failed system has its error in the sample and does not end the run. An error means that
// nothing could be measured, or that ctx has ended; then the report has the samples until
// then.
func Run(ctx context.Context, s Settings, progress io.Writer) (report *Report, err error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	peers, err := build(ctx, s.Systems)
	if err != nil {
		return nil, err
	}
	defer peers.remove()
	if report, err = newReport(ctx, s); err != nil {
		return nil, err
	}
	nets, err := s.networks(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, nets.tearDown()) }()
	r := &run{settings: s, built: peers, nets: nets, progress: progress, began: time.Now()}
	return report, r.rounds(ctx, report)
}

// newReport returns a report without samples.
func newReport(ctx context.Context, s Settings) (*Report, error) {
	commit, err := revision(ctx)
	if err != nil {
		return nil, err
	}
	return &Report{
		Kind: Kind, When: time.Now().UTC(), Revision: commit, Machine: thisMachine(), Topology: s.topology(), Settings: s,
	}, nil
}

// run is the state of a Run.
type run struct {
	settings Settings
	built    built
	nets     networks
	progress io.Writer
	began    time.Time
	done     int // measurements that have been made
}

// rounds adds the samples of all rounds to the report. The error is that of ctx.
func (r *run) rounds(ctx context.Context, report *Report) error {
	for round := range r.settings.Rounds {
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
func (r *run) measure(ctx context.Context, system string, cell Cell, round int) (Sample, error) {
	sample := r.built.measure(ctx, system, r.nets[cell.Deployment], r.settings, cell)
	if err := ctx.Err(); err != nil {
		return sample, err
	}
	sample.Round = round
	fmt.Fprintf(r.progress, "%s  %s\n", r.next(), sample)
	return sample, nil
}

// next counts a measurement and returns the progress of the run, with the estimated time
// left once several are done.
func (r *run) next() string {
	const enough = 5
	planned, _ := r.settings.Estimate()
	r.done++
	text := fmt.Sprintf("%d/%d", r.done, planned)
	if r.done < enough || r.done >= planned {
		return text
	}
	left := time.Since(r.began) / time.Duration(r.done) * time.Duration(planned-r.done)
	return fmt.Sprintf("%s, %v left", text, left.Round(time.Second))
}

// order returns the systems, beginning with another one each round, so that none is always
// the first after a change of cell.
func (s Settings) order(round int) []string {
	first := round % len(s.Systems)
	return slices.Concat(s.Systems[first:], s.Systems[:first])
}

// plan returns the plan of a client in the cell.
func (s Settings) plan(c Cell, addrs []string) load.Plan {
	p := load.Plan{Addrs: addrs, Callers: c.Callers, Warmup: s.Warmup, Duration: s.Duration, Calls: s.Calls, Rate: c.Rate}
	if c.Mode == Shared {
		p.Conns = s.Conns
	}
	return p
}
