package curves

import (
	"fmt"
	"io"
	"strconv"

	"github.com/tandem-rpc/tandem/bench/harness"
)

// WriteTable writes the report for people: a table for each curve, with a row
// for each x, the median of the rounds and, in brackets, least–most. A knee is
// marked by a star.
func (r *Report) WriteTable(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "%s\n%d rounds, calls a second; * is the knee\n", r.Machine, r.Settings.Rounds); err != nil {
		return err
	}
	for _, c := range r.Curves {
		if err := harness.WriteAligned(w, fmt.Sprintf("%s: over %s; knee: %s", c.Name, c.Over, c.Knee), c.rows()); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "document: %s\n", c.Document.Says); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintf(w, "\nthe documents' figures are from %s; %s\n", source, machine); err != nil {
		return err
	}
	for _, text := range r.Errors {
		fmt.Fprintln(w, "FAILED:", text)
	}
	return nil
}

func (c Curve) rows() [][]string {
	head := []string{"x"}
	for _, s := range c.Series {
		head = append(head, s.System)
	}
	rows := [][]string{append(head, "document (another machine)")}
	for _, x := range c.xs() {
		row := []string{strconv.Itoa(x)}
		for _, s := range c.Series {
			row = append(row, s.at(x))
		}
		text := ""
		if x == c.Document.Knee {
			text = fmt.Sprintf("about %d *", c.Document.QPS)
		}
		rows = append(rows, append(row, text))
	}
	return rows
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
