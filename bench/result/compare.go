package result

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/tandem-rpc/tandem/bench/figures"
	"github.com/tandem-rpc/tandem/bench/harness"
)

const cpuName = "CPU µs/call"

// compared are the figures that Compare compares.
var compared = []struct {
	name   string
	digits int
	of     func(harness.Sample) float64
}{
	{"calls/s", 0, harness.Sample.TPS},
	{cpuName, 2, CPU},
	{"p99 µs", 0, p99},
}

// Compare writes, for each system and cell that both reports have, the figures of both, the
// ratio of the medians with the smallest and the largest ratio that the rounds allow, and
// whether the spreads overlap: if they do, the difference may be chance.
func Compare(w io.Writer, older, newer *harness.Report) error {
	fmt.Fprintf(w, "old: %s, revision %s, %s\n", older.When.UTC().Format(time.DateTime), older.Revision, older.Machine)
	fmt.Fprintf(w, "new: %s, revision %s, %s\n", newer.When.UTC().Format(time.DateTime), newer.Revision, newer.Machine)
	if older.Machine.String() != newer.Machine.String() {
		fmt.Fprintf(w, "The machines differ: ratios say nothing about the code.\n")
	}
	both := slices.Contains(older.Settings.Modes, harness.Shared) && slices.Contains(newer.Settings.Modes, harness.Shared)
	if was, is := older.Settings.Conns, newer.Settings.Conns; both && was != is {
		return fmt.Errorf("result: shared mode has %d connections in the old report and %d in the new one: nothing can be compared", was, is)
	}
	if was, is := older.Settings.Measured(), newer.Settings.Measured(); was != is {
		fmt.Fprintf(w, "Not measured alike: %s, and %s.\n", was, is)
	}
	tables := 0
	for _, cell := range newer.Cells() {
		t := figures.Table{Title: cell.String(), Heads: []string{"system", "figure", "old", "new", "new ÷ old", "spreads"}}
		for _, system := range newer.Settings.Systems {
			t.Rows = append(t.Rows, compareSystem(older, newer, cell, system)...)
		}
		if len(t.Rows) == 0 {
			continue
		}
		tables++
		if err := figures.Write(w, nil, t); err != nil {
			return err
		}
	}
	if tables == 0 {
		return errors.New("result: the reports have no system with figures in the same cell; compare runs with equal settings")
	}
	return nil
}

// compareSystem returns a row for each figure, none if a report lacks the system.
func compareSystem(older, newer *harness.Report, cell harness.Cell, system string) [][]string {
	var rows [][]string
	for _, f := range compared {
		if f.name == cpuName && cell.Deployment == harness.Elsewhere {
			continue // the servers' usage is not known
		}
		was, inOld := older.Over(cell, system, f.of)
		is, inNew := newer.Over(cell, system, f.of)
		if !inOld || !inNew {
			return nil
		}
		rows = append(rows, []string{
			system, f.name, was.Fixed(f.digits), is.Fixed(f.digits), quotient(is, was).Fixed(2), overlap(is, was),
		})
	}
	return rows
}

// quotient returns the ratio of two medians, and the smallest and the largest ratio of a
// round of one to a round of the other.
func quotient(a, b figures.Spread) figures.Spread {
	return figures.Spread{Median: a.Median / b.Median, Min: a.Min / b.Max, Max: a.Max / b.Min}
}

// overlap says whether two spreads have a value in common.
func overlap(a, b figures.Spread) string {
	if a.Min <= b.Max && b.Min <= a.Max {
		return "overlap"
	}
	return "apart"
}
