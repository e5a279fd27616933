package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// writeTable writes one line for each cell and returns how many cells failed.
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

// cellReport is the result of a cell's last run, as resultsFile stores it.
type cellReport struct {
	Name, Title string
	OK          bool
	When        string
	Run         string // the build and the settings, see [runName]
	Missed      []string
	Arms        []armReport
	Checks      []check
}

type armReport struct {
	Name, Invalid string
	System, CC    string
	Control       bool
	Figures       summary
	Errors        string
	Proof         []string
}

func newCellReport(o outcome, s settings) cellReport {
	c := cellReport{
		Name: o.cell.Name, Title: o.cell.Title, OK: o.ok(), Missed: o.missed(), Checks: o.checks,
		When: time.Now().UTC().Format("2006-01-02 15:04 UTC"), Run: runName(s),
	}
	for _, a := range o.arms {
		r := armReport{Name: a.String(), System: a.System, CC: a.CC, Control: a.Control, Figures: a.summary(notCanceled), Proof: shorten(a.proof)}
		if r.Errors = r.Figures.codes(); a.invalid != nil {
			r.Invalid = a.invalid.Error()
		}
		c.Arms = append(c.Arms, r)
	}
	return c
}

// runName names the build and the settings that decide what runs. Results of runs with the
// same name belong together.
func runName(s settings) string {
	build := "unknown build"
	if info, ok := debug.ReadBuildInfo(); ok {
		values := map[string]string{}
		for _, v := range info.Settings {
			values[v.Key] = v.Value
		}
		if revision := values["vcs.revision"]; revision != "" {
			build = revision[:min(12, len(revision))]
		}
		if values["vcs.modified"] == "true" {
			build += " with changes"
		}
	}
	return fmt.Sprintf("%s, systems %s, %s, paired rounds %d, fast %v", build, s.systems, s.cc, s.pairs, s.fast)
}

// unfinished returns the cells whose results in -out are missing or from another run, or have
// an invalid arm of tandem.
func unfinished(chosen []cell, s settings) ([]cell, error) {
	results, err := readResults(s.out)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(chosen, func(c cell) bool {
		r := results[c.Name]
		return r.Run == runName(s) && !slices.ContainsFunc(r.Arms, func(a armReport) bool { return a.Invalid != "" && a.System == sysTandem })
	}), nil
}

// The files of the report.
const (
	resultsFile = "results.json" // results of each cell's last run, so a run of some cells keeps the others
	mainFile    = "README.md"    // see mainPage
	armsFile    = "arms.md"      // see armsPage
)

// writeReport writes the report into dir. It keeps the results that dir has of cells that are
// not in done.
func writeReport(dir string, done []outcome, s settings) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	results, err := readResults(dir)
	if err != nil {
		return err
	}
	for _, o := range done {
		results[o.cell.Name] = newCellReport(o, s)
		if err := writeFile(dir, o.cell.Name+".svg", []byte(plot(&o))); err != nil {
			return err
		}
	}
	var last []cellReport
	var missing []cell
	for _, c := range cells(s) {
		if r, ok := results[c.Name]; ok {
			last = append(last, r)
		} else {
			missing = append(missing, c)
		}
	}
	text, err := json.MarshalIndent(last, "", "\t")
	if err != nil {
		return err
	}
	return errors.Join(
		writeFile(dir, resultsFile, append(text, '\n')),
		writeFile(dir, mainFile, []byte(mainPage(last, missing))),
		writeFile(dir, armsFile, []byte(armsPage(last))))
}

func writeFile(dir, name string, text []byte) error {
	return os.WriteFile(filepath.Join(dir, name), text, 0o644) //nolint:gosec // the report is public
}

// readResults reads the results of earlier runs. The keys are the cells' names.
func readResults(dir string) (map[string]cellReport, error) {
	results := map[string]cellReport{}
	text, err := os.ReadFile(filepath.Join(dir, resultsFile)) //nolint:gosec // the user's directory
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
		for i, a := range c.Arms {
			if words := strings.Fields(a.Name); a.System == "" && len(words) > 1 { // an older version of the lab wrote it
				c.Arms[i].System, c.Arms[i].CC, c.Arms[i].Control = words[0], words[1], words[len(words)-1] == "control"
			}
		}
		results[c.Name] = c
	}
	return results, nil
}
