package main

import (
	"fmt"
	"io"
	"time"
)

// writeTable writes one line for each cell and returns how many failed.
func writeTable(w io.Writer, done []outcome) (failed int) {
	fmt.Fprintf(w, "\n%-24s %-6s %s\n", "cell", "result", "bars missed")
	for _, o := range done {
		result, missed := "pass", ""
		if !o.ok() {
			failed++
			result = "FAIL"
		}
		for _, c := range o.checks {
			if !c.OK {
				missed += fmt.Sprintf("%s: %s (%s); ", c.What, c.Got, c.Bar)
			}
		}
		fmt.Fprintf(w, "%-24s %-6s %s\n", o.cell.Name, result, missed)
	}
	return failed
}

func writeReport(dir string, done []outcome, begun time.Time) error { return nil }
