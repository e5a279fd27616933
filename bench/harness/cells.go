package harness

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem/bench/java"
)

// Mode says how callers and connections belong together.
type Mode string

// The two modes of the seeds' table.
const (
	Shared    Mode = "shared"    // all callers on Settings.Conns connections
	PerCaller Mode = "percaller" // one connection a caller
)

// Cell is one place of the table.
type Cell struct {
	Mode       Mode          `json:"mode"`
	Callers    int           `json:"callers"`
	Deployment Deployment    `json:"deployment,omitempty"` // empty means Same
	Work       time.Duration `json:"work_ns,omitempty"`    // of the handler, beside answering
	Rate       int           `json:"rate,omitempty"`       // calls that begin a second; 0 in the closed loop
	Percent    int           `json:"percent,omitempty"`    // of the slowest system's peak, if Rate comes from that
}

// String is the heading of the cell's table.
func (c Cell) String() string {
	s := fmt.Sprintf("%s, %d callers", c.Mode, c.Callers)
	if c.Work > 0 {
		s += fmt.Sprintf(", a handler of %v", c.Work)
	}
	if c.Rate > 0 {
		s += fmt.Sprintf(", open loop of %d calls/s", c.Rate)
	}
	if c.Percent > 0 {
		s += fmt.Sprintf(" (%d %% of the slowest)", c.Percent)
	}
	if c.Deployment.apart() {
		s += ", " + string(c.Deployment)
	}
	return s
}

// cells are the places of the table in their order. Those whose rates are
// parts of a peak are known once the peaks are.
func (s Settings) cells() []Cell {
	var cells []Cell
	for _, c := range s.closed() {
		if len(s.Rates) == 0 && len(s.Percents) == 0 {
			cells = append(cells, c)
		}
		for _, rate := range s.Rates {
			c.Rate = rate
			cells = append(cells, c)
		}
	}
	for _, peak := range s.Peaks {
		for _, percent := range s.Percents {
			c := peak
			c.Rate, c.Percent = max(1, peak.Rate*percent/100), percent
			cells = append(cells, c)
		}
	}
	return cells
}

// closed are the cells of the closed loop.
func (s Settings) closed() []Cell {
	var cells []Cell
	for _, deployment := range orZero(s.Deployments) {
		for _, work := range orZero(s.Works) {
			for _, mode := range s.Modes {
				for _, n := range s.Callers {
					cells = append(cells, Cell{Mode: mode, Callers: n, Deployment: deployment, Work: work})
				}
			}
		}
	}
	return cells
}

// orZero is the list, or one zero value if it is empty.
func orZero[T any](list []T) []T {
	if len(list) == 0 {
		return make([]T, 1)
	}
	return list
}

// check finds what cannot be meant.
func (s Settings) check() error {
	for _, m := range s.Modes {
		if m != Shared && m != PerCaller {
			return fmt.Errorf("harness: mode %q; there are %s and %s", m, Shared, PerCaller)
		}
	}
	for _, d := range s.Deployments {
		if err := d.check(s); err != nil {
			return err
		}
	}
	for what, numbers := range map[string][]int{"callers": s.Callers, "calls/s": s.Rates, "percent of the peak": s.Percents} {
		for _, n := range numbers {
			if n < 1 {
				return fmt.Errorf("harness: %d %s; there must be at least one", n, what)
			}
		}
	}
	if len(s.Systems) == 0 || len(s.Modes) == 0 || len(s.Callers) == 0 || s.Rounds < 1 || s.Conns < 1 {
		return fmt.Errorf("harness: nothing to measure: %d systems, %d modes, %d numbers of callers, %d rounds, %d connections",
			len(s.Systems), len(s.Modes), len(s.Callers), s.Rounds, s.Conns)
	}
	return nil
}

// assumedTPS is what an estimate takes for the rate of every system.
const assumedTPS = 50000

// Estimate returns how many measurements a run makes, those of peaks included,
// and how long it takes if every system manages 50,000 calls/s. Systems that
// fail or cannot share take less.
func (s Settings) Estimate() (measurements int, takes time.Duration) {
	each := len(s.closed()) * max(1, len(s.Rates)+len(s.Percents)) * s.Rounds
	if len(s.Percents) > 0 && len(s.Peaks) == 0 {
		each += len(s.closed())
	}
	for _, system := range s.Systems {
		one := s.warmup(system) + max(s.Duration, time.Duration(s.Calls)*time.Second/assumedTPS) + startTime
		takes += time.Duration(each) * one
	}
	return each * len(s.Systems), takes
}

// startTime is about what a measurement takes besides measuring.
const startTime = 500 * time.Millisecond

// topology says for each deployment what it really is.
func (s Settings) topology() []string {
	var all []string
	for _, d := range orZero(s.Deployments) {
		if d == "" {
			d = Same
		}
		text := fmt.Sprintf("%s: %s", d, d.topology())
		if d == Elsewhere {
			text += ": " + strings.Join(s.Addrs, ", ")
		}
		all = append(all, text)
	}
	return all
}

// String says in a line how long and how often was measured.
func (s Settings) String() string {
	return fmt.Sprintf("%d rounds of %s; shared mode: %d connections", s.Rounds, s.Measured(), s.Conns)
}

// Measured says how long a sample takes, and after how long a warm-up.
func (s Settings) Measured() string {
	text := fmt.Sprintf("%v and %d calls at least, after %v", s.Duration, s.Calls, s.Warmup)
	if slices.ContainsFunc(s.Systems, java.Is) {
		text += fmt.Sprintf(", in Java %v", max(s.Warmup, s.JavaWarmup))
	}
	return text
}
