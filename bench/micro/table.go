package micro

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Table is a part of a report for people.
type Table struct {
	Title string
	Heads []string
	Rows  [][]string
	Notes []string // lines below
}

// Write prints what was measured, where and how, and the tables.
func (r *Report) Write(w io.Writer, tables ...Table) error {
	if _, err := fmt.Fprintf(w, "%s\n%s\n", r.Machine, r.Settings); err != nil {
		return err
	}
	for _, t := range tables {
		if err := t.write(w); err != nil {
			return err
		}
	}
	return nil
}

// write aligns the first column left and the others, numbers, right.
func (t Table) write(w io.Writer) error {
	first := len(t.Heads[0])
	for _, row := range t.Rows {
		first = max(first, len([]rune(row[0])))
	}
	fmt.Fprintf(w, "\n%s\n", t.Title) // the tabwriter below meets the same error
	aligned := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range append([][]string{t.Heads}, t.Rows...) {
		pad := strings.Repeat(" ", first-len([]rune(row[0])))
		fmt.Fprintln(aligned, row[0]+pad+"\t"+strings.Join(row[1:], "\t")+"\t")
	}
	if err := aligned.Flush(); err != nil {
		return err
	}
	for _, note := range t.Notes {
		if _, err := fmt.Fprintln(w, note); err != nil {
			return err
		}
	}
	return nil
}

// WriteFile writes the whole report, every sample of it, as JSON.
func (r *Report) WriteFile(file string) error {
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return fmt.Errorf("micro: %w", err)
	}
	if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("micro: %w", err)
	}
	return nil
}

// String says in a line how long and how often was measured.
func (s Settings) String() string {
	return fmt.Sprintf("median of %d rounds of %v a benchmark, and in brackets least–most", s.Count, s.Time)
}

// Number writes v with three digits or more where it needs them.
func Number(v float64) string {
	switch size := math.Abs(v); {
	case size >= 100 || v == math.Trunc(v):
		return strconv.FormatFloat(v, 'f', 0, 64)
	case size >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// String is the median with the least and the most in brackets.
func (s Spread) String() string {
	return fmt.Sprintf("%s (%s–%s)", Number(s.Median), Number(s.Min), Number(s.Max))
}
