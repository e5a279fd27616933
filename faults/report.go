package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// writeTable writes one line for each cell and returns how many failed.
func writeTable(w io.Writer, done []outcome) (failed int) {
	fmt.Fprintf(w, "\n%-18s %-6s %s\n", "cell", "result", "bars missed")
	for _, o := range done {
		if !o.ok() {
			failed++
		}
		fmt.Fprintf(w, "%-18s %-6s %s\n", o.cell.Name, o.result(), strings.Join(o.missed(), "; "))
	}
	return failed
}

func (o *outcome) result() string {
	if o.ok() {
		return "pass"
	}
	return "FAIL"
}

// missed lists the bars that were not met.
func (o *outcome) missed() []string {
	var missed []string
	for _, c := range o.checks {
		if !c.OK {
			missed = append(missed, fmt.Sprintf("%s: %s (bar: %s)", c.What, c.Got, c.Bar))
		}
	}
	return missed
}

// cellReport is what is kept of a cell from run to run.
type cellReport struct {
	Name, Title string
	OK          bool
	When        string
	Missed      []string
	Arms        []armReport
	Checks      []check
}

type armReport struct {
	Name, Invalid string
	Figures       summary
	Errors        string
	Proof         []string
}

func newCellReport(o outcome) cellReport {
	c := cellReport{
		Name: o.cell.Name, Title: o.cell.Title, OK: o.ok(), Missed: o.missed(), Checks: o.checks,
		When: time.Now().UTC().Format("2006-01-02 15:04 UTC"),
	}
	for _, a := range o.arms {
		r := armReport{Name: a.String(), Figures: a.summary(all), Proof: a.proof}
		if r.Errors = r.Figures.codes(); a.invalid != nil {
			r.Invalid = a.invalid.Error()
		}
		c.Arms = append(c.Arms, r)
	}
	return c
}

// resultsFile keeps the last result of each cell, so that a run of some cells updates
// the report of all.
const resultsFile = "results.json"

// writeReport writes README.md, the results and the plots into dir.
func writeReport(dir string, done []outcome, s settings) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	results, err := readResults(dir)
	if err != nil {
		return err
	}
	for _, o := range done {
		results[o.cell.Name] = newCellReport(o)
		if err := writeFile(dir, o.cell.Name+".svg", []byte(plot(&o))); err != nil {
			return err
		}
	}
	var last []cellReport
	for _, c := range cells() {
		if r, ok := results[c.Name]; ok {
			last = append(last, r)
		}
	}
	text, err := json.MarshalIndent(last, "", "\t")
	if err != nil {
		return err
	}
	var b strings.Builder
	writeHead(&b, last, s)
	for _, c := range last {
		writeCell(&b, c)
	}
	return errors.Join(writeFile(dir, resultsFile, append(text, '\n')), writeFile(dir, "README.md", []byte(b.String())))
}

func writeFile(dir, name string, text []byte) error {
	return os.WriteFile(filepath.Join(dir, name), text, 0o644) //nolint:gosec // to be read by all
}

// readResults reads the results of earlier runs, by the cells' names.
func readResults(dir string) (map[string]cellReport, error) {
	results := map[string]cellReport{}
	text, err := os.ReadFile(filepath.Join(dir, resultsFile)) //nolint:gosec // the user's folder
	if errors.Is(err, os.ErrNotExist) {
		return results, nil
	}
	if err != nil {
		return nil, err
	}
	var list []cellReport
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("%s: %w", resultsFile, err)
	}
	for _, c := range list {
		results[c.Name] = c
	}
	return results, nil
}

func writeHead(b *strings.Builder, last []cellReport, s settings) {
	passed := 0
	for _, c := range last {
		if c.OK {
			passed++
		}
	}
	fmt.Fprintf(b, "# Reliability: what the fault lab measured last\n\n")
	fmt.Fprintf(b, "`make faults` writes this page. [The lab](../../faults/main.go) runs servers and clients as processes in network namespaces, "+
		"breaks them or their network under load, and compares the journals of both sides. "+
		"Each cell ran after a control arm without its fault, in which no call may fail.\n\n")
	fmt.Fprintf(b, "The last run: %d cores, Linux %s, %s, systems %s, rounds of paired cells up to %d, congestion control %s.\n\n",
		runtime.NumCPU(), kernel(), runtime.Version(), s.systems, s.pairs, s.cc)
	fmt.Fprintf(b, "**%d of %d cells pass.** A cell passes if tandem meets every bar. The peers have their default settings.\n\n", passed, len(last))
	fmt.Fprintf(b, "| cell | what happens | result | bars missed |\n|---|---|---|---|\n")
	for _, c := range last {
		fmt.Fprintf(b, "| [%s](#%s) | %s | %s | %s |\n", c.Name, c.Name, c.Title, c.result(), inTable(strings.Join(c.Missed, "; ")))
	}
}

func (c cellReport) result() string {
	if c.OK {
		return "pass"
	}
	return "**fail**"
}

// writeCell writes a cell's arms and bars.
func writeCell(b *strings.Builder, c cellReport) {
	fmt.Fprintf(b, "\n## %s\n\n%s. Result: %s, %s.\n\n![the slowest call of each second](%s.svg)\n\n", c.Name, capital(c.Title), c.result(), c.When, c.Name)
	fmt.Fprintf(b, "| arm | calls | failed | p50 | p99 | slowest | ran twice | lost | NotExecuted, but ran | errors | proof |\n|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, a := range c.Arms {
		if a.Invalid != "" {
			fmt.Fprintf(b, "| %s | | | | | | | | | %s | |\n", a.Name, inTable(a.Invalid))
			continue
		}
		s := a.Figures
		fmt.Fprintf(b, "| %s | %d | %d | %v | %v | %v | %d | %d | %d | %s | %s |\n", a.Name, s.Made, s.Failed,
			round(s.P50), round(s.P99), round(s.Max), s.Doubles, s.Lost, s.Contradictions, a.Errors, inTable(strings.Join(a.Proof, "; ")))
	}
	fmt.Fprintf(b, "\n<details><summary>%d bars</summary>\n\n| bar | allowed | measured | |\n|---|---|---|---|\n", len(c.Checks))
	for _, ch := range c.Checks {
		met := "met"
		if !ch.OK {
			met = "**missed**"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", ch.What, ch.Bar, inTable(ch.Got), met)
	}
	fmt.Fprintf(b, "\n</details>\n")
}

// inTable makes text fit into a cell of a Markdown table.
func inTable(text string) string {
	return strings.NewReplacer("|", "/", "\n", " ").Replace(text)
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// kernel returns the kernel's release.
func kernel() string {
	var u syscall.Utsname
	if err := syscall.Uname(&u); err != nil {
		return "of unknown release"
	}
	var b strings.Builder
	for _, c := range u.Release {
		if c == 0 {
			break
		}
		b.WriteByte(byte(c)) //nolint:gosec // ASCII
	}
	return b.String()
}
