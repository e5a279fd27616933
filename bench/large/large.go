// Package large measures what the table of small calls does not show: streams
// of larger messages, small calls beside very large ones, TLS, compression, and
// calls of plain bytes. Every part is a run of package harness with systems
// that have options.
package large

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem/bench/figures"
	"github.com/tandem-rpc/tandem/bench/harness"
)

// Settings are what all parts have in common.
type Settings struct {
	Rounds   int
	Warmup   time.Duration
	Duration time.Duration
	Timeout  time.Duration
}

// Part is a question and the run that answers it.
type Part struct {
	Name     string           `json:"name"`
	Question string           `json:"question"`
	Settings harness.Settings `json:"-"` // they are in the report
	Report   *harness.Report  `json:"report"`
	Verdicts []Verdict        `json:"verdicts,omitempty"`

	// judge turns the report into verdicts.
	judge func(*harness.Report) []Verdict
}

// Report is the outcome of a run.
type Report struct {
	Parts []Part `json:"parts"`
}

// Failed returns how many samples have no figures.
func (r *Report) Failed() (n int) {
	for _, p := range r.Parts {
		n += p.Report.Failed()
	}
	return n
}

// WriteTable writes the report for people.
func (r *Report) WriteTable(w io.Writer) error {
	for _, p := range r.Parts {
		if err := p.writeTable(w); err != nil {
			return err
		}
	}
	return nil
}

func (p Part) writeTable(w io.Writer) error {
	if err := figures.Write(w, []string{"", fmt.Sprintf("== %s: %s", p.Name, p.Question)}); err != nil {
		return err
	}
	if err := p.Report.WriteTable(w); err != nil {
		return err
	}
	verdicts := []string{""}
	for _, v := range p.Verdicts {
		verdicts = append(verdicts, v.String())
	}
	return figures.Write(w, verdicts)
}

// Names returns the names of all parts, in order.
func Names() (names []string) {
	for _, p := range parts(Settings{}) {
		names = append(names, p.Name)
	}
	return names
}

// Run measures the parts of these names and writes a line to progress after
// each sample. With an error there may be a report, of what was measured
// before.
func Run(ctx context.Context, names []string, s Settings, progress io.Writer) (*Report, error) {
	chosen, err := choose(names, s)
	if err != nil {
		return nil, err
	}
	report := &Report{}
	for _, p := range chosen {
		fmt.Fprintf(progress, "%s\n", p.Name)
		p.Report, err = harness.Run(ctx, p.Settings, progress)
		if p.Report != nil {
			if p.judge != nil {
				p.Verdicts = p.judge(p.Report)
			}
			report.Parts = append(report.Parts, p)
		}
		if err != nil {
			return report, err
		}
	}
	return report, nil
}

// choose returns the parts of these names.
func choose(names []string, s Settings) (chosen []Part, err error) {
	all := parts(s)
	for _, name := range names {
		i := slices.IndexFunc(all, func(p Part) bool { return p.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("large: no part %q; there are %s", name, strings.Join(Names(), ", "))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}
