package harness

import (
	"fmt"
	"strings"
	"time"
)

// Mode says how callers use connections.
type Mode string

// The two modes of the seeds' table.
const (
	Shared    Mode = "shared"    // all callers on Settings.Conns connections
	PerCaller Mode = "percaller" // one connection for each caller
)

// Cell is one combination of mode, callers, deployment, work and rate: one table of the
// report.
type Cell struct {
	Mode       Mode          `json:"mode"`
	Callers    int           `json:"callers"`
	Deployment Deployment    `json:"deployment,omitempty"` // empty means Same
	Work       time.Duration `json:"work_ns,omitempty"`    // time that the handler computes, besides answering
	Rate       int           `json:"rate,omitempty"`       // calls that begin a second; 0 in the closed loop
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
	if c.Deployment.apart() {
		s += ", " + string(c.Deployment)
	}
	return s
}

// cells returns the cells of the report in their order.
func (s Settings) cells() []Cell {
	var cells []Cell
	for _, deployment := range orZero(s.Deployments) {
		for _, work := range orZero(s.Works) {
			for _, mode := range s.Modes {
				for _, n := range s.Callers {
					for _, rate := range orZero(s.Rates) {
						cells = append(cells, Cell{Mode: mode, Callers: n, Deployment: deployment, Work: work, Rate: rate})
					}
				}
			}
		}
	}
	return cells
}

// orZero returns the list, or one zero value if it is empty.
func orZero[T any](list []T) []T {
	if len(list) == 0 {
		return make([]T, 1)
	}
	return list
}

// check returns an error for settings that make no sense.
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
	for what, numbers := range map[string][]int{"callers": s.Callers, "calls/s": s.Rates} {
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

// Estimate returns how many measurements a run makes, and about how long it takes if every
// system reaches 50,000 calls a second. Systems that fail or cannot share connections take
// less.
func (s Settings) Estimate() (measurements int, takes time.Duration) {
	const assumedTPS, start = 50_000, 500 * time.Millisecond
	n := len(s.cells()) * s.Rounds * len(s.Systems)
	one := s.Warmup + max(s.Duration, time.Duration(s.Calls)*time.Second/assumedTPS) + start
	return n, time.Duration(n) * one
}

// topology returns for each deployment where its processes run.
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

// String returns the number and length of the measurements in one line.
func (s Settings) String() string {
	return fmt.Sprintf("%d rounds of %s; shared mode: %d connections", s.Rounds, s.Measured(), s.Conns)
}

// Measured returns how long a sample and its warm-up take.
func (s Settings) Measured() string {
	return fmt.Sprintf("%v and %d calls at least, after %v", s.Duration, s.Calls, s.Warmup)
}
