// Package harness builds the systems under test, runs each cell of the bench
// as a server process and a client process, and reports what both used.
//
// Rounds alternate between the systems, so that what the machine does beside
// the bench falls on all of them, and a ratio is taken within its round.
package harness

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/tandem-rpc/tandem/bench/load"
)

// Mode says how callers and connections belong together.
type Mode string

// The two modes of the seeds' table.
const (
	Shared    Mode = "shared"    // all callers on Settings.Conns connections
	PerCaller Mode = "percaller" // one connection a caller
)

// Settings are what a run measures. They are part of its report.
type Settings struct {
	Systems   []string      `json:"systems"` // folders of bench/peers
	Modes     []Mode        `json:"modes"`
	Callers   []int         `json:"callers"`
	Rates     []int         `json:"rates,omitempty"` // calls a second; none means the closed loop
	Conns     int           `json:"conns"`           // in the shared mode
	Rounds    int           `json:"rounds"`
	Warmup    time.Duration `json:"warmup_ns"`
	Duration  time.Duration `json:"duration_ns"` // measure at least so long,
	Calls     int64         `json:"calls"`       // and at least so many calls
	Timeout   time.Duration `json:"timeout_ns"`  // a cell that takes longer has failed
	Baselines []string      `json:"baselines"`   // systems that the others are divided by
}

// Cell is one place of the table.
type Cell struct {
	Mode    Mode `json:"mode"`
	Callers int  `json:"callers"`
	Rate    int  `json:"rate,omitempty"` // calls that begin a second; 0 in the closed loop
}

// String is the heading of the cell's table.
func (c Cell) String() string {
	if c.Rate > 0 {
		return fmt.Sprintf("%s, %d callers, open loop of %d calls/s", c.Mode, c.Callers, c.Rate)
	}
	return fmt.Sprintf("%s, %d callers", c.Mode, c.Callers)
}

// Sample is one system in one cell in one round.
type Sample struct {
	System      string      `json:"system"`
	Cell        Cell        `json:"cell"`
	Round       int         `json:"round"`
	Client      load.Result `json:"client"`
	Server      load.Usage  `json:"server"` // in the server's measured interval
	Unsupported string      `json:"unsupported,omitempty"`
	Error       string      `json:"error,omitempty"` // why there are no figures
}

// ok tells whether the sample has figures.
func (s Sample) ok() bool { return s.Error == "" && s.Unsupported == "" }

// Report is the outcome of a run.
type Report struct {
	When     time.Time `json:"when"`
	Machine  Machine   `json:"machine"`
	Settings Settings  `json:"settings"`
	Samples  []Sample  `json:"samples"`
}

// Failed returns how many samples have no figures although their system
// supports the cell.
func (r *Report) Failed() int {
	n := 0
	for _, s := range r.Samples {
		if s.Error != "" {
			n++
		}
	}
	return n
}

// Run measures every cell in every round and writes a line to progress after
// each sample. A system that fails leaves its reason in the sample and does not
// end the run. An error means that nothing could be measured; or that ctx has
// ended, and then the report holds what was measured before.
func Run(ctx context.Context, s Settings, progress io.Writer) (*Report, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	built, err := build(ctx, s.Systems)
	if err != nil {
		return nil, err
	}
	defer built.remove()
	report := &Report{When: time.Now(), Machine: ThisMachine(), Settings: s}
	for round := range s.Rounds {
		for _, cell := range s.cells() {
			for _, name := range s.order(round) {
				sample := measure(ctx, built.path(name), s, cell)
				if err := ctx.Err(); err != nil {
					return report, fmt.Errorf("harness: interrupted in round %d: %w", round+1, err)
				}
				sample.System, sample.Round = name, round
				report.Samples = append(report.Samples, sample)
				fmt.Fprintf(progress, "round %d/%d  %s\n", round+1, s.Rounds, sample)
			}
		}
	}
	return report, nil
}

// order is the systems beginning with another one each round, so that none is
// always the first after a change of cell.
func (s Settings) order(round int) []string {
	first := round % len(s.Systems)
	return slices.Concat(s.Systems[first:], s.Systems[:first])
}

// check finds what cannot be meant.
func (s Settings) check() error {
	for _, m := range s.Modes {
		if m != Shared && m != PerCaller {
			return fmt.Errorf("harness: mode %q; there are %s and %s", m, Shared, PerCaller)
		}
	}
	for _, n := range s.Callers {
		if n < 1 {
			return fmt.Errorf("harness: %d callers; there must be at least one", n)
		}
	}
	for _, n := range s.Rates {
		if n < 1 {
			return fmt.Errorf("harness: a rate of %d calls/s; there must be at least one", n)
		}
	}
	if len(s.Systems) == 0 || len(s.Modes) == 0 || len(s.Callers) == 0 || s.Rounds < 1 || s.Conns < 1 {
		return fmt.Errorf("harness: nothing to measure: %d systems, %d modes, %d numbers of callers, %d rounds, %d connections",
			len(s.Systems), len(s.Modes), len(s.Callers), s.Rounds, s.Conns)
	}
	return nil
}

func (s Settings) cells() []Cell {
	var cells []Cell
	for _, mode := range s.Modes {
		for _, n := range s.Callers {
			if len(s.Rates) == 0 {
				cells = append(cells, Cell{Mode: mode, Callers: n})
			}
			for _, rate := range s.Rates {
				cells = append(cells, Cell{mode, n, rate})
			}
		}
	}
	return cells
}

// plan is what a client does in the cell.
func (s Settings) plan(c Cell, addr string) load.Plan {
	p := load.Plan{Addr: addr, Callers: c.Callers, Warmup: s.Warmup, Duration: s.Duration, Calls: s.Calls, Rate: c.Rate}
	if c.Mode == Shared {
		p.Conns = s.Conns
	}
	return p
}
