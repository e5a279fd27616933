package result

import (
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/bench/harness"
)

func TestHeadline(t *testing.T) {
	r := sampleReport(20_000)
	r.Settings.Systems = append(r.Settings.Systems, "slow", "tandem+tls")
	for _, cell := range r.Cells() {
		r.Samples = append(r.Samples, sample("slow", cell, 0, 10), sample("tandem+tls", cell, 0, 1_000_000))
	}
	block, err := Headline(r, "bench/results/a")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"(bench/results/a/throughput-shared.svg)", "(bench/results/a/report.md)", "1000 callers", "2 shared connections", "revision 0123456789ab",
		"\n| tandem | 30,000 calls/s, ", "\n| the fastest peer | 15,000 calls/s, ", "(netrpc) |", "\n| an echo without a framework | 45,000 calls/s, ",
	} {
		if !strings.Contains(block, want) {
			t.Errorf("the block lacks %q:\n%s", want, block)
		}
	}
}

func TestAHeadlineNeedsItsCells(t *testing.T) {
	for why, change := range map[string]func(*harness.Report){
		"1000 callers": func(r *harness.Report) { r.Samples = r.Samples[:4] },
		"no peer":      func(r *harness.Report) { r.Settings.Systems = []string{"tandem", "floor-mux", "floor-plain"} },
	} {
		r := sampleReport(1000)
		change(r)
		if _, err := Headline(r, ""); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("error %v, want %q in it", err, why)
		}
	}
}

func TestReplaceHeadline(t *testing.T) {
	text, err := ReplaceHeadline("a\n"+beginMark+"old\n"+endMark+"z\n", "new\n")
	if want := "a\n" + beginMark + "new\n" + endMark + "z\n"; err != nil || text != want {
		t.Errorf("got %q, %v; want %q", text, err, want)
	}
	if _, err := ReplaceHeadline("a\nz\n", "new\n"); err == nil {
		t.Error("a text without marks was accepted")
	}
}

// A report of the seeds' whole table has the cells of a headline and others.
func TestTheHeadlineIsOfPlainCalls(t *testing.T) {
	r := sampleReport(20_000)
	want, err := Headline(r, "")
	if err != nil {
		t.Fatal(err)
	}
	r.Settings.Deployments = []harness.Deployment{harness.Apart, harness.Same}
	r.Settings.Works = []time.Duration{time.Microsecond, 0}
	if got, err := Headline(r, ""); err != nil || got != want {
		t.Errorf("got %v\n%s\nwant\n%s", err, got, want)
	}
}
