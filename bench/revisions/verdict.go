package revisions

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/tandem-rpc/tandem/bench/figures"
	"github.com/tandem-rpc/tandem/bench/micro"
)

// Write prints a line for each benchmark, with the medians of its runs and the
// median of their ratios in pairs, and the geometric mean of each package and of
// all.
func (c Comparison) Write(w io.Writer) error {
	t := figures.Table{Heads: []string{"benchmark", "old ns/op", "new", "ratio in pairs", "old allocs/op", "new"}}
	for i, r := range c.Rows {
		t.Rows = append(t.Rows, []string{
			short(r.Name), figures.Number(micro.Times(r.Old).Median), figures.Number(micro.Times(r.New).Median),
			fmt.Sprintf("%.3f", r.Ratio()), fmt.Sprintf("%.0f", allocs(r.Old)), fmt.Sprintf("%.0f", allocs(r.New)),
		})
		if i+1 == len(c.Rows) || pkg(c.Rows[i+1]) != pkg(r) {
			t.Rows = append(t.Rows, mean(short(pkg(r)), geomean(c.of(pkg(r)))))
		}
	}
	t.Rows = append(t.Rows, mean("all", c.Geomean()))
	for _, name := range c.Only {
		t.Notes = append(t.Notes, short(name)+" at one revision only")
	}
	return figures.Write(w, nil, t)
}

func mean(of string, ratio float64) []string {
	return []string{of + " geomean", "", "", fmt.Sprintf("%.3f", ratio), "", ""}
}

// of are the rows of a package.
func (c Comparison) of(name string) []Row {
	var rows []Row
	for _, r := range c.Rows {
		if pkg(r) == name {
			rows = append(rows, r)
		}
	}
	return rows
}

func pkg(r Row) string {
	name, _, _ := strings.Cut(r.Name, " ")
	return name
}

// short leaves out what all names have in common.
func short(name string) string { return strings.TrimPrefix(name, rootModule+"/") }

// Judge returns an error when the geometric mean is worse by more than limit, a
// part of 1, or a benchmark allocates more than it did.
func (c Comparison) Judge(limit float64) error {
	if len(c.Rows) == 0 {
		return errors.New("revisions: the revisions have no benchmark in common")
	}
	var errs []error
	if g := c.Geomean(); g > 1+limit {
		errs = append(errs, fmt.Errorf("revisions: the geometric mean of ns/op is %.1f %% worse, limit %.1f %%", 100*(g-1), 100*limit))
	}
	for _, r := range c.Rows {
		if is, was := allocs(r.New), allocs(r.Old); is > was {
			errs = append(errs, fmt.Errorf("revisions: %s has %.0f allocations a call, %.0f before", short(r.Name), is, was))
		}
	}
	return errors.Join(errs...)
}
