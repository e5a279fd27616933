// Package revisions compares micro-benchmarks at two revisions: it builds the
// benchmarks of both and runs them in turns.
//
// A benchmark's ratio is the median of the ratios of its pairs of runs, the i-th
// at one revision and the i-th at the other, which took place one after the
// other. Neither the least of all runs nor their median does as well: a parallel
// benchmark that the scheduler happens to leave alone on a processor once is
// three times as fast as ever again, and a load that lasts for some of the
// rounds moves the medians of both revisions apart.
package revisions

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tandem-rpc/tandem/bench/figures"
)

// sample is the result of one run of a benchmark.
type sample struct {
	ns     float64 // time of an operation
	allocs float64 // objects allocated by an operation
}

// results are the samples of each benchmark by its package and name, in the order
// of its runs.
type results map[string][]sample

// resultLine matches a benchmark's name, the operations, and figures with their units.
var resultLine = regexp.MustCompile(`(?m)^Benchmark(\S+)\s+\d+\s+(.* ns/op.*)$`)

// add adds the output of a package's benchmarks.
func (r results) add(pkg, output string) {
	for _, line := range resultLine.FindAllStringSubmatch(output, -1) {
		var s sample
		fields := strings.Fields(line[2])
		for i := 0; i+1 < len(fields); i += 2 {
			v, _ := strconv.ParseFloat(fields[i], 64) // a field that is not a number has an ignored unit
			switch fields[i+1] {
			case "ns/op":
				s.ns = v
			case "allocs/op":
				s.allocs = v
			}
		}
		if s.ns > 0 { // a ratio needs a time
			name := pkg + " " + line[1]
			r[name] = append(r[name], s)
		}
	}
}

// CompareFiles compares two files with outputs of go test -bench.
func CompareFiles(older, newer string) (Comparison, error) {
	was, err := readFile(older)
	if err != nil {
		return Comparison{}, err
	}
	is, err := readFile(newer)
	return compare(was, is), err
}

func readFile(name string) (results, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("revisions: %w", err)
	}
	r := results{}
	for part := range strings.SplitSeq(string(text), "pkg: ") {
		pkg, output, _ := strings.Cut(part, "\n")
		r.add(pkg, output)
	}
	if len(r) == 0 {
		return nil, fmt.Errorf("revisions: no benchmark in the output of go test -bench: %s", name)
	}
	return r, nil
}

// Comparison has the results of each benchmark that both revisions have.
type Comparison struct {
	rows []row    // in the order of their names
	only []string // benchmarks that only one revision has; they are not compared
}

// row is a benchmark before and after.
type row struct {
	name         string
	older, newer []sample
}

// compare compares two results.
func compare(older, newer results) Comparison {
	var c Comparison
	for _, name := range slices.Sorted(maps.Keys(older)) {
		if is, ok := newer[name]; ok {
			c.rows = append(c.rows, row{name, older[name], is})
		} else {
			c.only = append(c.only, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(newer)) {
		if _, ok := older[name]; !ok {
			c.only = append(c.only, name)
		}
	}
	return c
}

// ratio returns the new time divided by the old: the median over the pairs of runs. A run
// without a partner is ignored.
func (r row) ratio() float64 {
	var all []float64
	for i := range min(len(r.older), len(r.newer)) {
		all = append(all, r.newer[i].ns/r.older[i].ns)
	}
	return figures.SpreadOf(all).Median
}

// median returns the median of the runs' times.
func median(runs []sample) float64 {
	var all []float64
	for _, s := range runs {
		all = append(all, s.ns)
	}
	return figures.SpreadOf(all).Median
}

// allocs returns how many objects an operation allocates, the minimum of all runs.
func allocs(runs []sample) float64 {
	least := runs[0].allocs
	for _, s := range runs {
		least = min(least, s.allocs)
	}
	return least
}

// geomean is the geometric mean of the ratios.
func geomean(rows []row) float64 {
	sum := 0.0
	for _, r := range rows {
		sum += math.Log(r.ratio())
	}
	return math.Exp(sum / float64(len(rows)))
}

// Write prints a line for each benchmark, with the medians of its runs and the
// median of their ratios in pairs, and the geometric mean of each package and of
// all.
func (c Comparison) Write(w io.Writer) error {
	t := figures.Table{Heads: []string{"benchmark", "old ns/op", "new", "ratio in pairs", "old allocs/op", "new"}}
	mean := func(of string, rows []row) {
		t.Rows = append(t.Rows, []string{of + " geomean", "", "", fmt.Sprintf("%.3f", geomean(rows)), "", ""})
	}
	first := 0 // index of the package's first row
	for i, r := range c.rows {
		t.Rows = append(t.Rows, []string{
			r.name, figures.Number(median(r.older)), figures.Number(median(r.newer)),
			fmt.Sprintf("%.3f", r.ratio()), fmt.Sprintf("%.0f", allocs(r.older)), fmt.Sprintf("%.0f", allocs(r.newer)),
		})
		pkg, _, _ := strings.Cut(r.name, " ")
		if i+1 == len(c.rows) || !strings.HasPrefix(c.rows[i+1].name, pkg+" ") {
			mean(pkg, c.rows[first:i+1])
			first = i + 1
		}
	}
	mean("all", c.rows)
	for _, name := range c.only {
		t.Notes = append(t.Notes, name+" at one revision only")
	}
	return figures.Write(w, nil, t)
}

// Judge returns an error if the geometric mean is worse by more than limit, a fraction of
// 1, or a benchmark allocates more than before.
func (c Comparison) Judge(limit float64) error {
	if len(c.rows) == 0 {
		return errors.New("revisions: the revisions have no benchmark in common")
	}
	var errs []error
	if g := geomean(c.rows); g > 1+limit {
		errs = append(errs, fmt.Errorf("revisions: the geometric mean of ns/op is %.1f %% worse, limit %.1f %%", 100*(g-1), 100*limit))
	}
	for _, r := range c.rows {
		if is, was := allocs(r.newer), allocs(r.older); is > was {
			errs = append(errs, fmt.Errorf("revisions: %s has %.0f allocations a call, %.0f before", r.name, is, was))
		}
	}
	return errors.Join(errs...)
}
