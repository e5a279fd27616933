package harness

import (
	"context"
	"fmt"
	"strings"
)

// floorPrefix begins the names of systems that are no frameworks.
const floorPrefix = "floor-"

// oursPrefix begins the names of other ways to run tandem.
const oursPrefix = "tandem-"

// findPeaks measures, if rates are parts of peaks that are not known, every system once in every
// cell of the closed loop, and notes the slowest rate of each cell in the
// report's settings. Floors, and what is tandem over something else, are measured like
// all but are nobody's slowest; a system that fails or cannot share has no peak. Of a
// cell in which no system has one there is no open loop.
func (r run) findPeaks(ctx context.Context, report *Report) error {
	if len(r.settings.Percents) == 0 || len(r.settings.Peaks) > 0 {
		return nil
	}
	for _, cell := range r.settings.closed() {
		var samples []Sample
		for _, name := range r.settings.Systems {
			sample, err := r.measure(ctx, name, cell, 0)
			if err != nil {
				return fmt.Errorf("harness: interrupted while looking for peaks: %w", err)
			}
			samples = append(samples, sample)
		}
		report.Peaks = append(report.Peaks, samples...)
		slowest, found := slowestOf(samples)
		if !found {
			fmt.Fprintf(r.progress, "%s: no system has a peak, so there is no open loop\n", cell)
			continue
		}
		cell.Rate = max(1, int(slowest.TPS()))
		report.Settings.Peaks = append(report.Settings.Peaks, cell)
		fmt.Fprintf(r.progress, "the slowest is %s with %d calls/s\n", slowest.System, cell.Rate)
	}
	return nil
}

// slowestOf returns the framework's sample with the lowest rate.
func slowestOf(samples []Sample) (slowest Sample, found bool) {
	for _, s := range samples {
		if !s.OK() || strings.HasPrefix(s.System, floorPrefix) || strings.HasPrefix(s.System, oursPrefix) {
			continue
		}
		if !found || s.TPS() < slowest.TPS() {
			slowest, found = s, true
		}
	}
	return slowest, found
}
