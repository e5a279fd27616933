package figures

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Table is a part of a report for people.
type Table struct {
	Title string // a line above; none if it is empty
	Heads []string
	Rows  [][]string // as long as Heads
	Notes []string   // lines below
}

// Write prints what the tables have in common, a line each, and the tables.
func Write(w io.Writer, lines []string, tables ...Table) error {
	if err := writeLines(w, lines); err != nil {
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
	above := []string{""}
	if t.Title != "" {
		above = append(above, t.Title)
	}
	if err := writeLines(w, above); err != nil {
		return err
	}
	rows := append([][]string{t.Heads}, t.Rows...)
	first := 0
	for _, row := range rows {
		first = max(first, width(row[0]))
	}
	aligned := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range rows {
		pad := strings.Repeat(" ", first-width(row[0]))
		fmt.Fprintln(aligned, row[0]+pad+"\t"+strings.Join(row[1:], "\t")+"\t") // keeps its first error for Flush
	}
	if err := aligned.Flush(); err != nil {
		return err
	}
	return writeLines(w, t.Notes)
}

// width is how many columns of a terminal the text takes.
func width(text string) int { return len([]rune(text)) }

func writeLines(w io.Writer, lines []string) error {
	for _, line := range lines {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}
