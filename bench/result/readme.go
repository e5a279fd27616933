package result

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/tandem-rpc/tandem/bench/harness"
)

// The marks around the block of README.md that is made from a kept result.
const (
	beginMark = "<!-- bench report begins: made by `go run ./bench report -readme`, do not edit -->\n"
	endMark   = "<!-- bench report ends -->\n"
)

// headlineCallers is the number of callers in README.md.
const headlineCallers = 1000

// Headline returns README.md's block about a report that is kept in the folder, a path with
// slashes relative to README.md. The report must have both modes with 1000 callers, in a
// closed loop, with tandem and a peer, and at least one other number of callers, since the
// plot is over those.
func Headline(r *harness.Report, folder string) (string, error) {
	if len(r.Settings.Callers) < 2 {
		return "", fmt.Errorf("result: a plot over the number of callers needs more than one: %v", r.Settings.Callers)
	}
	shared, err := headlineCell(r, harness.Shared)
	if err != nil {
		return "", err
	}
	alone, err := headlineCell(r, harness.PerCaller)
	if err != nil {
		return "", err
	}
	left, err := beside(r, shared, "floor-mux")
	if err != nil {
		return "", err
	}
	right, err := beside(r, alone, "floor-plain")
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "![Calls a second over the number of callers, %s](%s)\n\n", circumstances(r, shared), path.Join(folder, name("throughput", shared)+".svg"))
	fmt.Fprintf(&b, "%d callers send and receive a message of 581 bytes; client and server share %d cores.\n\n", headlineCallers, r.Machine.Cores)
	fmt.Fprintf(&b, "| | %d shared connections | a connection for each caller |\n|---|---|---|\n", r.Settings.Conns)
	for k, what := range []string{subject, "the fastest peer", "an echo without a framework"} {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", what, left[k], right[k])
	}
	fmt.Fprintf(&b, "\n[The whole report](%s), %s, revision %s.\n", path.Join(folder, MarkdownFile), r.When.UTC().Format("2006-01-02"), r.Revision)
	return b.String(), nil
}

// headlineCell finds the cell for README.md: the one with as little as possible besides the
// calls themselves.
func headlineCell(r *harness.Report, mode harness.Mode) (harness.Cell, error) {
	for _, c := range r.Cells() {
		if c.Mode == mode && c.Callers == headlineCallers && c.Work == 0 && c.Rate == 0 && !isAway(c) {
			return c, nil
		}
	}
	return harness.Cell{}, fmt.Errorf("result: no cell with %d callers, %s, in a closed loop", headlineCallers, mode)
}

// beside returns the results of tandem, the fastest peer and the floor in a cell.
func beside(r *harness.Report, cell harness.Cell, floor string) (said [3]string, err error) {
	peer, err := fastestPeer(r, cell)
	if err != nil {
		return said, err
	}
	for k, system := range []string{subject, peer, floor} {
		tps, ok := r.Over(cell, system, harness.Sample.TPS)
		if !ok {
			return said, fmt.Errorf("result: no figures of %s in the cell %q", system, cell)
		}
		cpu, _ := r.Over(cell, system, CPU)
		said[k] = fmt.Sprintf("%s calls/s, %.1f µs of CPU each", thousands(tps.Median), cpu.Median)
	}
	said[1] += " (" + peer + ")"
	return said, nil
}

// fastestPeer returns the system with the most calls a second that is neither ours nor a
// floor.
func fastestPeer(r *harness.Report, cell harness.Cell) (string, error) {
	fastest, most := "", 0.0
	for _, system := range r.Settings.Systems {
		tps, ok := r.Over(cell, system, harness.Sample.TPS)
		if ok && isPeer(system) && tps.Median > most {
			fastest, most = system, tps.Median
		}
	}
	if fastest == "" {
		return "", fmt.Errorf("result: no peer has figures in the cell %q", cell)
	}
	return fastest, nil
}

// isPeer reports whether the system is neither ours, with any options or transport, nor a
// floor.
func isPeer(system string) bool {
	name, _, _ := strings.Cut(system, "+")
	return name != subject && !strings.HasPrefix(name, subject+"-") && !isFloor(name)
}

// thousands formats 12345.6 as 12,346.
func thousands(v float64) string {
	text := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// ReplaceHeadline returns README.md's text with the block between the marks replaced.
func ReplaceHeadline(readme, block string) (string, error) {
	head, rest, begins := strings.Cut(readme, beginMark)
	_, tail, ends := strings.Cut(rest, endMark)
	if !begins || !ends {
		return "", errors.New("result: the text has no marks to put the block between: " + strings.TrimSpace(beginMark))
	}
	return head + beginMark + block + endMark + tail, nil
}
