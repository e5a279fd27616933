// Package pairs measures calls at two revisions in turns, a whole process each time, and
// says within which interval the ratio of their speeds lies.
//
// A pair is a run at one revision and a run at the other, one right after the other; which
// comes first changes from pair to pair. The figure is the mean of the logarithms of the
// pairs' ratios with Student's 95 % interval, so that a machine whose speed drifts widens
// the interval and does not move the mean.
package pairs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/tandem-rpc/tandem/bench/figures"
	"github.com/tandem-rpc/tandem/bench/harness"
	"github.com/tandem-rpc/tandem/bench/revisions"
)

// Settings are the parameters of Run.
type Settings struct {
	Base     string // a revision; the other side is the working tree
	Pairs    int
	Callers  string // list of callers, as bench calls takes it
	Modes    string
	Duration time.Duration
	Warmup   time.Duration
}

// Ratio is new divided by old, and the ends of its 95 % interval.
type Ratio struct{ Mean, Low, High float64 }

// Row is the result of a cell.
type Row struct {
	Cell  harness.Cell
	Calls Ratio // calls a second
	CPU   Ratio // processor time of a call, client and server together
}

// side is one of the two revisions.
type side struct{ tree, binary string }

// Run builds the bench at both revisions and measures them in turns.
func Run(ctx context.Context, s Settings, progress io.Writer) (rows []Row, err error) {
	if s.Pairs < 2 { //nolint:mnd // one pair has no interval
		return nil, fmt.Errorf("pairs: %d pairs; there must be at least two", s.Pairs)
	}
	older, newer, remove, err := build(ctx, s.Base, progress)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	samples := [2][][]harness.Sample{}
	for i := range s.Pairs {
		for turn := range 2 {
			at := (turn + i) % 2 //nolint:mnd // of two sides
			run, err := [2]side{older, newer}[at].measure(ctx, s)
			if err != nil {
				return nil, err
			}
			samples[at] = append(samples[at], run)
		}
		fmt.Fprintf(progress, "pair %d of %d\n", i+1, s.Pairs)
	}
	return compare(samples[0], samples[1]), nil
}

// build builds both sides. remove deletes what it has created.
func build(ctx context.Context, base string, progress io.Writer) (older, newer side, remove func() error, err error) {
	temp, err := os.MkdirTemp("", "bench-pairs-")
	if err != nil {
		return older, newer, nil, fmt.Errorf("pairs: %w", err)
	}
	root, leave, err := revisions.Checkout(ctx, filepath.Join(temp, "tree"), base)
	remove = func() error { return errors.Join(leave(), os.RemoveAll(temp)) }
	if err != nil {
		return older, newer, nil, errors.Join(err, os.RemoveAll(temp))
	}
	older, newer = side{filepath.Join(temp, "tree"), filepath.Join(temp, "old")}, side{root, filepath.Join(temp, "new")}
	for _, v := range []side{older, newer} {
		fmt.Fprintf(progress, "building %s\n", v.binary)
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", v.binary, "./bench")
		cmd.Dir = v.tree
		if out, err := cmd.CombinedOutput(); err != nil {
			return older, newer, nil, errors.Join(fmt.Errorf("pairs: building: %w\n%s", err, out), remove())
		}
	}
	return older, newer, remove, nil
}

// measure makes one run of every cell.
func (v side) measure(ctx context.Context, s Settings) ([]harness.Sample, error) {
	file := v.binary + ".json"
	cmd := exec.CommandContext(ctx, v.binary, "calls", "-systems", "tandem", "-baselines", "tandem", "-rounds", "1",
		"-callers", s.Callers, "-mode", s.Modes, "-duration", s.Duration.String(), "-warmup", s.Warmup.String(), "-json", file)
	cmd.Dir = v.tree
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("pairs: %s: %w\n%s", v.binary, err, out)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("pairs: %w", err)
	}
	var report harness.Report
	if err := json.Unmarshal(text, &report); err != nil {
		return nil, fmt.Errorf("pairs: %s: %w", file, err)
	}
	if n := report.Failed(); n > 0 {
		return nil, fmt.Errorf("pairs: %d cells of %s failed", n, v.binary)
	}
	return report.Samples, nil
}

// compare returns a row for each cell; all runs have the cells in the same order.
func compare(older, newer [][]harness.Sample) []Row {
	rows := make([]Row, len(older[0]))
	for i := range rows {
		var calls, cpu []float64
		for n := range older {
			was, is := older[n][i], newer[n][i]
			calls = append(calls, math.Log(is.TPS()/was.TPS()))
			cpu = append(cpu, math.Log(float64(is.CPU())/float64(was.CPU())))
		}
		rows[i] = Row{older[0][i].Cell, interval(calls), interval(cpu)}
	}
	return rows
}

// interval returns the mean of ratios, given their logarithms, with its 95 % interval.
func interval(logs []float64) Ratio {
	n := float64(len(logs))
	var sum, squares float64
	for _, x := range logs {
		sum += x
	}
	mean := sum / n
	for _, x := range logs {
		squares += (x - mean) * (x - mean)
	}
	half := student(len(logs)-1) * math.Sqrt(squares/(n-1)/n)
	return Ratio{math.Exp(mean), math.Exp(mean - half), math.Exp(mean + half)}
}

// student returns the 97.5 % quantile of Student's t for this number of degrees of freedom;
// for a number between two of the table, the quantile of the lower.
func student(freedom int) float64 {
	t := 12.706
	for _, row := range []struct {
		freedom int
		t       float64
	}{
		{2, 4.303}, {3, 3.182}, {4, 2.776}, {5, 2.571}, {6, 2.447}, {7, 2.365}, {8, 2.306}, {9, 2.262}, {10, 2.228},
		{12, 2.179}, {14, 2.145}, {16, 2.120}, {19, 2.093}, {24, 2.064}, {29, 2.045}, {39, 2.023}, {59, 2.001}, {99, 1.984},
	} {
		if freedom >= row.freedom {
			t = row.t
		}
	}
	return t
}

// Write prints a line for each cell.
func Write(w io.Writer, rows []Row) error {
	t := figures.Table{Heads: []string{"cell", "calls/s, new ÷ old", "95 %", "CPU a call, new ÷ old", "95 %"}}
	for _, r := range rows {
		t.Rows = append(t.Rows, []string{
			r.Cell.String(), number(r.Calls.Mean), r.Calls.ends(), number(r.CPU.Mean), r.CPU.ends(),
		})
	}
	return figures.Write(w, nil, t)
}

func (r Ratio) ends() string { return number(r.Low) + "–" + number(r.High) }

func number(x float64) string { return strconv.FormatFloat(x, 'f', 3, 64) }

// Judge returns an error for each cell whose interval does not exclude a loss of calls a
// second of more than limit, a fraction of 1.
func Judge(rows []Row, limit float64) error {
	var errs []error
	for _, r := range rows {
		if r.Calls.Low < 1-limit {
			errs = append(errs, fmt.Errorf("pairs: %v: a loss of more than %.1f %% is not excluded: %s", r.Cell, 100*limit, r.Calls.ends())) //nolint:mnd // percent
		}
	}
	return errors.Join(errs...)
}
