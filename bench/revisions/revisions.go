// Package revisions compares the outputs of go test -bench at two revisions, and
// makes them: it builds the benchmarks of both and runs them in turns.
//
// A benchmark's ratio is the median of the ratios of its pairs of runs, the i-th
// at one revision and the i-th at the other, which took place one after the
// other. Neither the least of all runs nor their median does as well: a parallel
// benchmark that the scheduler happens to leave alone on a processor once is
// three times as fast as ever again, and a load that lasts for some of the
// rounds moves the medians of both revisions apart. Four comparisons of a
// revision with itself on a laden machine of two processors, six runs each, gave
// geometric means of 0.97 to 1.00 by pairs, 0.94 to 1.01 by medians, and by the
// least 0.98 to 1.03 with a benchmark at 3.4.
package revisions

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/tandem-rpc/tandem/bench/micro"
)

// ReadFile reads a file with the output of go test -bench.
func ReadFile(name string) (micro.Results, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("revisions: %w", err)
	}
	defer func() { _ = file.Close() }() // it was only read
	runs, err := Read(file)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, name)
	}
	return runs, nil
}

// Read reads the output of go test -bench: the samples of each benchmark in the
// order of its runs, by package and name. It is an error if there is none.
func Read(r io.Reader) (micro.Results, error) {
	runs, pkg := micro.Results{}, ""
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := lines.Text()
		if p, ok := strings.CutPrefix(line, "pkg: "); ok {
			pkg = p
			continue
		}
		if name, sample, ok := micro.ParseLine(line); ok && sample.NS > 0 { // no ratio to nothing
			name = pkg + " " + name
			runs[name] = append(runs[name], sample)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("revisions: %w", err)
	}
	if len(runs) == 0 {
		return nil, errors.New("revisions: no benchmark in the output of go test -bench")
	}
	return runs, nil
}

// Comparison is what became of each benchmark that both revisions have.
type Comparison struct {
	Rows []Row    // in the order of their names
	Only []string // benchmarks that one revision has alone; they count for nothing
}

// Row is a benchmark before and after.
type Row struct {
	Name     string
	Old, New []micro.Sample
}

// Ratio is how many times as long a call takes: the median over the pairs of
// runs. A run without a partner is left out.
func (r Row) Ratio() float64 { return micro.Ratio(r.New, r.Old).Median }

// allocs are the objects that a call allocates, the least of all runs; 0 when the
// output does not say.
func allocs(runs []micro.Sample) float64 {
	least := runs[0].Allocs
	for _, s := range runs {
		least = min(least, s.Allocs)
	}
	return least
}

// Compare sets two outputs side by side.
func Compare(older, newer micro.Results) Comparison {
	var c Comparison
	for name, was := range older {
		if is, ok := newer[name]; ok {
			c.Rows = append(c.Rows, Row{name, was, is})
		} else {
			c.Only = append(c.Only, name)
		}
	}
	for name := range newer {
		if _, ok := older[name]; !ok {
			c.Only = append(c.Only, name)
		}
	}
	slices.SortFunc(c.Rows, func(a, b Row) int { return strings.Compare(a.Name, b.Name) })
	slices.Sort(c.Only)
	return c
}

// Geomean is the geometric mean of the ratios of all benchmarks.
func (c Comparison) Geomean() float64 { return geomean(c.Rows) }

func geomean(rows []Row) float64 {
	sum := 0.0
	for _, r := range rows {
		sum += math.Log(r.Ratio())
	}
	return math.Exp(sum / float64(len(rows)))
}
