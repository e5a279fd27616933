package main

import (
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

// writeReport writes README.md and the plots into dir, in place of the last ones.
func writeReport(dir string, done []outcome, s settings, begun time.Time) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	old, err := filepath.Glob(filepath.Join(dir, "*.svg"))
	if err != nil {
		return err
	}
	for _, f := range old {
		if err := os.Remove(f); err != nil {
			return err
		}
	}
	var b strings.Builder
	writeHead(&b, done, s, begun)
	for _, o := range done {
		writeCell(&b, o)
	}
	for _, o := range done {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, o.cell.Name+".svg"), []byte(plot(&o)), 0o644)) //nolint:gosec // to be read
	}
	return errors.Join(err, os.WriteFile(filepath.Join(dir, "README.md"), []byte(b.String()), 0o644)) //nolint:gosec // to be read
}

func writeHead(b *strings.Builder, done []outcome, s settings, begun time.Time) {
	passed := 0
	for _, o := range done {
		if o.ok() {
			passed++
		}
	}
	fmt.Fprintf(b, "# Reliability: what the fault lab measured last\n\n")
	fmt.Fprintf(b, "`make faults` writes this page. [The lab](../../faults/main.go) runs servers and clients as processes in network namespaces, "+
		"breaks them or their network under load, and compares the journals of both sides. Each cell ran after a control arm without its fault, in which no call may fail.\n\n")
	fmt.Fprintf(b, "%s, %d cores, Linux %s, %s; rounds of paired cells: up to %d; congestion control: %s. It took %v.\n\n",
		begun.UTC().Format("2006-01-02 15:04 UTC"), runtime.NumCPU(), kernel(), runtime.Version(), s.pairs, s.cc, time.Since(begun).Round(time.Minute))
	fmt.Fprintf(b, "**%d of %d cells pass.** A cell passes if tandem meets every bar; the peers' figures are for comparison, with their default settings.\n\n", passed, len(done))
	fmt.Fprintf(b, "| cell | what happens | result | bars missed |\n|---|---|---|---|\n")
	for _, o := range done {
		fmt.Fprintf(b, "| [%s](#%s) | %s | %s | %s |\n", o.cell.Name, o.cell.Name, o.cell.Title, o.result(), strings.Join(o.missed(), "; "))
	}
}

// writeCell writes a cell's arms, worst figures included.
func writeCell(b *strings.Builder, o outcome) {
	fmt.Fprintf(b, "\n## %s\n\n%s. Result: %s.\n\n![the slowest call of each second](%s.svg)\n\n", o.cell.Name, capital(o.cell.Title), o.result(), o.cell.Name)
	fmt.Fprintf(b, "| arm | calls | failed | p50 | p99 | slowest | ran twice | lost | NotExecuted, but ran | errors | proof |\n|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, a := range o.arms {
		if a.invalid != nil {
			fmt.Fprintf(b, "| %s | | | | | | | | | %s | |\n", a.arm, strings.ReplaceAll(a.invalid.Error(), "|", "/"))
			continue
		}
		s := a.summary(all)
		fmt.Fprintf(b, "| %s | %d | %d | %v | %v | %v | %d | %d | %d | %s | %s |\n", a.arm, s.Made, s.Failed,
			round(s.P50), round(s.P99), round(s.Max), s.Doubles, s.Lost, s.Contradictions, s.codes(), strings.Join(a.proof, "; "))
	}
	fmt.Fprintf(b, "\n<details><summary>%d bars</summary>\n\n| bar | allowed | measured | |\n|---|---|---|---|\n", len(o.checks))
	for _, c := range o.checks {
		met := "met"
		if !c.OK {
			met = "**missed**"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", c.What, c.Bar, c.Got, met)
	}
	fmt.Fprintf(b, "\n</details>\n")
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
