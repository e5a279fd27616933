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
	Name     string          `json:"name"`
	Question string          `json:"question"`
	Settings run             `json:"-"` // they are in the report
	Report   *harness.Report `json:"report"`
	Verdicts []Verdict       `json:"verdicts,omitempty"`

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
		if _, err := fmt.Fprintf(w, "\n== %s: %s\n", p.Name, p.Question); err != nil {
			return err
		}
		if err := p.Report.WriteTable(w); err != nil {
			return err
		}
		fmt.Fprintln(w)
		for _, v := range p.Verdicts {
			fmt.Fprintln(w, v)
		}
	}
	return nil
}

// Names returns the names of all parts, in order.
func Names() (names []string) {
	for _, p := range parts(Settings{}) {
		names = append(names, p.Name)
	}
	return names
}

// Run measures the parts of these names and writes a line to progress after
// each sample.
func Run(ctx context.Context, names []string, s Settings, progress io.Writer) (*Report, error) {
	report := &Report{}
	all := parts(s)
	for _, name := range names {
		i := slices.IndexFunc(all, func(p Part) bool { return p.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("large: no part %q; there are %s", name, strings.Join(Names(), ", "))
		}
		p := all[i]
		fmt.Fprintf(progress, "%s\n", p.Name)
		var err error
		if p.Report, err = harness.Run(ctx, p.Settings.Settings, progress); err != nil {
			return report, err
		}
		if p.judge != nil {
			p.Verdicts = p.judge(p.Report)
		}
		report.Parts = append(report.Parts, p)
	}
	return report, nil
}
