package result

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/tandem-rpc/tandem/bench/harness"
)

// The block of README.md that is made from a kept result stands between these.
const (
	beginMark = "<!-- bench report begins: made by `go run ./bench report -readme`, do not edit -->\n"
	endMark   = "<!-- bench report ends -->\n"
)

// headlineCallers is the number of callers that README.md speaks of.
const headlineCallers = 1000

// Headline is README.md's block about a report that is kept in the folder,
// a path with slashes from where README.md lies. The report must have both
// modes with 1000 callers, in a closed loop, with tandem and a peer, and another number
// of callers besides, since the plot is over those.
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
	sharedText, err := beside(r, shared, "floor-mux")
	if err != nil {
		return "", err
	}
	aloneText, err := beside(r, alone, "floor-plain")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("![Calls a second over the number of callers, %s](%s)\n\n"+
		"%d callers, a 581-byte message each way, client and server on the same %d cores, medians of %d rounds (least–most). "+
		"On %d shared connections: %s. With one connection a caller: %s. [The whole report](%s), %s, revision %s.\n",
		circumstances(r, shared), path.Join(folder, name("throughput", shared)+".svg"),
		headlineCallers, r.Machine.Cores, r.Settings.Rounds,
		r.Settings.Conns, sharedText, aloneText, path.Join(folder, MarkdownFile), r.When.UTC().Format("2006-01-02"), r.Revision), nil
}

// headlineCell finds the cell that README.md speaks of: as little as possible
// beside the calls themselves.
func headlineCell(r *harness.Report, mode harness.Mode) (harness.Cell, error) {
	for _, c := range r.Cells() {
		if c.Mode == mode && c.Callers == headlineCallers && c.Work == 0 && c.Rate == 0 && !isAway(c) {
			return c, nil
		}
	}
	return harness.Cell{}, fmt.Errorf("result: no cell with %d callers, %s, in a closed loop", headlineCallers, mode)
}

// beside says what tandem, the fastest peer and the floor did in a cell.
func beside(r *harness.Report, cell harness.Cell, floor string) (string, error) {
	peer, err := fastestPeer(r, cell)
	if err != nil {
		return "", err
	}
	var parts []string
	for _, who := range []struct{ system, what string }{
		{subject, subject}, {peer, "the fastest peer, " + peer + ","}, {floor, "a bare echo without a framework"},
	} {
		tps, ok := r.Over(cell, who.system, harness.Sample.TPS)
		if !ok {
			return "", fmt.Errorf("result: no figures of %s in the cell %q", who.system, cell)
		}
		cpu, _ := r.Over(cell, who.system, CPU)
		parts = append(parts, fmt.Sprintf("%s %s calls/s (%s–%s) at %.1f µs of CPU a call",
			who.what, thousands(tps.Median), thousands(tps.Min), thousands(tps.Max), cpu.Median))
	}
	return strings.Join(parts, "; "), nil
}

// fastestPeer is the system with the most calls a second that is neither ours
// nor a floor.
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

// isPeer tells whether the system is neither ours, with whatever options or over
// whatever transport, nor a floor.
func isPeer(system string) bool {
	name, _, _ := strings.Cut(system, "+")
	return name != subject && !strings.HasPrefix(name, subject+"-") && !isFloor(name)
}

// thousands writes 12345.6 as 12,346.
func thousands(v float64) string {
	text := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// ReplaceHeadline returns README.md's text with another block between the
// marks.
func ReplaceHeadline(readme, block string) (string, error) {
	head, rest, begins := strings.Cut(readme, beginMark)
	_, tail, ends := strings.Cut(rest, endMark)
	if !begins || !ends {
		return "", errors.New("result: the text has no marks to put the block between: " + strings.TrimSpace(beginMark))
	}
	return head + beginMark + block + endMark + tail, nil
}
