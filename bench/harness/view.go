package harness

import "github.com/tandem-rpc/tandem/bench/figures"

// Cells returns the places of the report's table in their order.
func (r *Report) Cells() []Cell { return r.Settings.cells() }

// Over returns a figure of a system in a cell over all rounds. It is false when
// there are no samples with figures.
func (r *Report) Over(cell Cell, system string, figure func(Sample) float64) (figures.Spread, bool) {
	samples := r.of(cell, system)
	return Over(samples, figure), len(samples) > 0
}
