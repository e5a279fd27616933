package figures

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Table is a table of a report.
type Table struct {
	Title string // a line above; none if it is empty
	Heads []string
	Rows  [][]string // each as long as Heads
	Notes []string   // lines below
}

// Write prints the lines that the tables have in common, and the tables.
func Write(w io.Writer, lines []string, tables ...Table) error {
	var b bytes.Buffer
	writeLines(&b, lines)
	for _, t := range tables {
		t.write(&b)
	}
	_, err := b.WriteTo(w)
	return err
}

// write aligns the first column left and the others, numbers, right.
func (t Table) write(b *bytes.Buffer) {
	fmt.Fprintln(b)
	if t.Title != "" {
		fmt.Fprintln(b, t.Title)
	}
	rows := append([][]string{t.Heads}, t.Rows...)
	first := 0
	for _, row := range rows {
		first = max(first, width(row[0]))
	}
	aligned := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range rows {
		pad := strings.Repeat(" ", first-width(row[0]))
		fmt.Fprintln(aligned, row[0]+pad+"\t"+strings.Join(row[1:], "\t")+"\t")
	}
	_ = aligned.Flush() // writing to a buffer can't fail
	writeLines(b, t.Notes)
}

// width returns how many columns of a terminal the text takes.
func width(text string) int { return len([]rune(text)) }

func writeLines(b *bytes.Buffer, lines []string) {
	for _, line := range lines {
		fmt.Fprintln(b, line)
	}
}
