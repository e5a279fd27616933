package curves

import (
	"fmt"
	"io"
	"strconv"

	"github.com/tandem-rpc/tandem/bench/figures"
)

// WriteTable writes the report for people: a table for each curve, with a row
// for each x, the median of the rounds and, in brackets, least–most. A knee is
// marked by a star.
func (r *Report) WriteTable(w io.Writer) error {
	lines := []string{
		r.Machine.String(),
		fmt.Sprintf("%d rounds, calls a second; * is the knee", r.Settings.Rounds),
		fmt.Sprintf("the document's figures are from %s; %s", source, machine),
	}
	for _, text := range r.Errors {
		lines = append(lines, "FAILED: "+text)
	}
	var tables []figures.Table
	for _, c := range r.Curves {
		tables = append(tables, c.table())
	}
	return figures.Write(w, lines, tables...)
}

func (c Curve) table() figures.Table {
	t := figures.Table{
		Title: fmt.Sprintf("%s: over %s; knee: %s", c.Name, c.Over, c.Knee),
		Heads: []string{"x"},
		Notes: []string{"document: " + c.Document.Says},
	}
	for _, s := range c.Series {
		t.Heads = append(t.Heads, s.System)
	}
	t.Heads = append(t.Heads, "document (another machine)")
	for _, x := range c.xs() {
		row := []string{strconv.Itoa(x)}
		for _, s := range c.Series {
			row = append(row, s.at(x))
		}
		text := ""
		if x == c.Document.Knee {
			text = fmt.Sprintf("about %d *", c.Document.QPS)
		}
		t.Rows = append(t.Rows, append(row, text))
	}
	return t
}

// xs are those of the line with the most points: one that failed has fewer.
func (c Curve) xs() (xs []int) {
	var longest Series
	for _, s := range c.Series {
		if len(s.Points) > len(longest.Points) {
			longest = s
		}
	}
	for _, p := range longest.Points {
		xs = append(xs, p.X)
	}
	return xs
}

func (s Series) at(x int) string {
	for _, p := range s.Points {
		if p.X != x {
			continue
		}
		text := fmt.Sprintf("%.0f (%.0f–%.0f)", p.QPS, p.Least, p.Most)
		if x == s.Knee {
			text += " *"
		}
		return text
	}
	return "–"
}
