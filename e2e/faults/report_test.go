package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestReportKeepsOtherCells(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"stop3s-1", "rtt3s", "stop3s-1"} {
		o := result(time.Unix(1000, 0), entry{ID: 1, Variant: "failfast", At: 5, Code: "unavailable"})
		o.cell.Name, o.cell.Title = name, "something | breaks"
		o.checks = []check{atMost("tandem: failed", 1, 0)}
		if err := writeReport(dir, []outcome{*o}, settings{systems: sysTandem}); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for _, want := range []string{"**0 of 2 cells pass.**", "| [rtt3s](arms.md#rtt3s) | something / breaks | cubic | 1 of 1 |  |  | **fail** |", "- rtt3s: tandem: failed: 1 (bar: ≤ 0)"} {
		if !strings.Contains(page, want) {
			t.Errorf("the report lacks %q:\n%s", want, page)
		}
	}
	arms, err := os.ReadFile(filepath.Join(dir, armsFile))
	if err != nil || !strings.Contains(string(arms), "1 unavailable") {
		t.Errorf("the page of arms lacks the error (%v)", err)
	}
	if strings.Count(string(arms), "## stop3s-1") != 1 {
		t.Error("a cell that ran twice is not exactly once on the page of arms")
	}
	svg, err := os.ReadFile(filepath.Join(dir, "rtt3s.svg"))
	if err != nil || !strings.Contains(string(svg), "×") {
		t.Errorf("the plot does not show the failed call (%v)", err)
	}
}

func TestArmsOfACell(t *testing.T) {
	l := &lab{settings: settings{systems: "tandem,rpcx", cc: "cubic,bbr", pairs: 3}}
	paired := l.arms(cell{Paired: true, MaxRounds: 2, Beside: sysGRPC})
	if want := 2 * (3 + 3 + 2); len(paired) != want { // for each congestion control: 3 control arms, a round of 3 and a round of 2
		t.Errorf("%d arms, want %d: %v", len(paired), want, paired)
	}
	if single := l.arms(cell{Systems: []string{sysTandem}}); len(single) != 2 || !single[0].Control || single[1].Control {
		t.Errorf("arms %v, want a control arm and one with the fault", single)
	}
	l.settings.short = true
	if short := l.arms(cell{}); len(short) != 2 {
		t.Errorf("arms %v of the short form, want tandem's two", short)
	}
}

func TestResume(t *testing.T) {
	s := settings{out: t.TempDir(), systems: sysTandem, cc: "cubic", pairs: 5}
	chosen := []cell{{Name: "stop3s-1"}, {Name: "rtt3s"}, {Name: "kill9"}}
	for _, name := range []string{"stop3s-1", "kill9"} {
		o := result(time.Unix(1000, 0), entry{ID: 1, Code: codeOK})
		o.cell.Name, o.cell.Title = name, "something breaks"
		if name == "kill9" {
			o.arms[0].invalid = errNotReady
		}
		if err := writeReport(s.out, []outcome{*o}, s); err != nil {
			t.Fatal(err)
		}
	}
	left, err := unfinished(slices.Clone(chosen), s)
	if err != nil || len(left) != 2 || left[0].Name != "rtt3s" || left[1].Name != "kill9" {
		t.Errorf("left %+v (%v), want the cell that did not run and the one whose arm was invalid", left, err)
	}
	s.pairs = 3
	if left, err = unfinished(slices.Clone(chosen), s); err != nil || len(left) != 3 {
		t.Errorf("left %+v (%v) with other settings, want all", left, err)
	}
}
