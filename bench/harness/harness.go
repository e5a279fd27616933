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

	"github.com/tandem-rpc/tandem/bench/load"
)

// Settings are what a run measures. They are part of its report.
type Settings struct {
	Systems []string `json:"systems"` // folders of bench/peers, with options (see load.Options)
	Modes   []Mode   `json:"modes"`
	Callers []int    `json:"callers"`

	Deployments []Deployment    `json:"deployments,omitempty"` // none means Same
	Works       []time.Duration `json:"works_ns,omitempty"`    // of the handlers; none means 0
	Addrs       []string        `json:"addrs,omitempty"`       // servers of the deployment Elsewhere

	Rates     []int         `json:"rates,omitempty"` // calls a second; none means the closed loop
	Conns     int           `json:"conns"`           // in the shared mode
	Rounds    int           `json:"rounds"`
	Warmup    time.Duration `json:"warmup_ns"`
	Duration  time.Duration `json:"duration_ns"` // measure at least so long,
	Calls     int64         `json:"calls"`       // and at least so many calls
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

// OK tells whether the sample has figures.
func (s Sample) OK() bool { return s.Error == "" && s.Unsupported == "" }

// Kind is what reports of this package are called among other kept results.
const Kind = "calls"

// Report is the outcome of a run.
type Report struct {
	Kind     string    `json:"kind"` // Kind
	When     time.Time `json:"when"`
	Revision string    `json:"revision"` // the commit that was measured; see revision
	Machine  Machine   `json:"machine"`
	Topology []string  `json:"topology"` // what the deployments really were
	Settings Settings  `json:"settings"`
	Samples  []Sample  `json:"samples"`
}

// Failed returns how many samples have no figures although their system supports
// the cell, or calls that failed.
func (r *Report) Failed() int { return len(r.Failures()) }

// Failures says of each what went wrong.
func (r *Report) Failures() (lines []string) {
	for _, s := range r.Samples {
		if s.failed() {
			lines = append(lines, fmt.Sprintf("round %d: %s", s.Round+1, s))
		}
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

// newReport is the report before anything has been measured.
func newReport(ctx context.Context, s Settings) (*Report, error) {
	commit, err := revision(ctx)
	if err != nil {
		return nil, err
	}
	return &Report{
		Kind: Kind, When: time.Now().UTC(), Revision: commit, Machine: thisMachine(), Topology: s.topology(), Settings: s,
	}, nil
}

// run is a Run that goes on.
type run struct {
	settings Settings
	built    built
	nets     networks
	progress io.Writer
	began    time.Time
	done     int // measurements
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

// next counts a measurement and returns how far the run is, once several are done
// with the time that is left if the others take as long as these on average.
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
