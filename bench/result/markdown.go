package result

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem/bench/harness"
)

// oneMachine is what all topologies have in common.
const oneMachine = "a process each, with the load generator in the client; all that run on one machine share its cores"

// Markdown returns the report as Markdown, made from r only.
func Markdown(r *harness.Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Calls, %s\n\n", r.When.UTC().Format(time.DateOnly))
	fmt.Fprintf(&b, "Made by `bench report` from [%s](%s); do not edit. The bench's README says what is measured, how, and with which settings.\n", JSONFile, JSONFile)
	fmt.Fprintf(&b, "Figures are medians over the rounds, with least–most in brackets; ratios are taken within a round.\n\n")
	writeRows(&b, conditions(r))
	fmt.Fprintf(&b, "\n## Plots\n\n")
	for _, c := range Charts(r) {
		fmt.Fprintf(&b, "![%s](%s.svg)\n", c.Title, c.Name)
	}
	for _, cell := range r.Cells() {
		fmt.Fprintf(&b, "\n## %s\n", cell)
		for _, t := range r.Tables(cell) {
			fmt.Fprintf(&b, "\n")
			writeRows(&b, append([][]string{t.Heads}, t.Rows...))
		}
	}
	writeFailures(&b, r)
	return b.String()
}

// conditions returns what is needed to repeat the run.
func conditions(r *harness.Report) [][]string {
	s := r.Settings
	rows := [][]string{
		{"condition", "value"},
		{"began", r.When.UTC().Format("2006-01-02 15:04 UTC")},
		{"revision", r.Revision},
		{"processor", fmt.Sprintf("%s, %d cores", r.Machine.CPU, r.Machine.Cores)},
		{"system", r.Machine.OS + ", kernel " + r.Machine.Kernel},
		{"Go", r.Machine.Go},
		{"environment", strings.Join(r.Machine.Env, " ")},
		{"topology", strings.Join(r.Topology, "; ") + "; " + oneMachine},
		{"rounds", strconv.Itoa(s.Rounds)},
		{"measured", s.Measured()},
		{"shared mode", fmt.Sprintf("%d connections", s.Conns)},
	}
	return slices.DeleteFunc(rows, func(row []string) bool { return row[1] == "" })
}

// writeFailures writes why systems have no figures in a cell, and which calls failed where
// there are figures.
func writeFailures(b *strings.Builder, r *harness.Report) {
	lines := r.Failures()
	for _, s := range r.Samples {
		if s.Unsupported != "" {
			lines = append(lines, fmt.Sprintf("%s, %s: %s", s.System, s.Cell.Mode, s.Unsupported))
		}
	}
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(b, "\n## Failed, or not supported\n\n")
	slices.Sort(lines)
	for _, line := range slices.Compact(lines) {
		fmt.Fprintf(b, "- %s\n", oneLine(line))
	}
}

// writeRows writes a table whose first row has the heads.
func writeRows(b *strings.Builder, rows [][]string) {
	for i, row := range rows {
		b.WriteString("|")
		for _, cell := range row {
			fmt.Fprintf(b, " %s |", strings.ReplaceAll(oneLine(cell), "|", `\|`))
		}
		b.WriteString("\n")
		if i == 0 {
			b.WriteString(strings.Repeat("|---", len(row)) + "|\n")
		}
	}
}

// oneLine joins lines, since a cell of a table can't have several.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
