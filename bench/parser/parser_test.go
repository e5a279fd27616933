package parser

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/bench/micro"
)

// The averages that the session's benchmark makes its messages by.
func TestDocumentsAverages(t *testing.T) {
	for i, want := range []int{461, 2269, 20364} {
		if got := documents[i].average(); got != want {
			t.Errorf("%s: %d bytes a message, want %d", documents[i].size, got, want)
		}
	}
}

// Every cell of the document is measured, in every way.
func TestEveryCellIsMeasured(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs another package's benchmarks")
	}
	report, err := micro.Run(t.Context(), micro.Settings{Count: 1, Time: time.Millisecond}, io.Discard, Source())
	if err != nil {
		t.Fatal(err)
	}
	tables := Tables(report.Results)
	for i, d := range documents {
		if got, want := len(tables[i].Rows), len(d.cells)*(1+len(systems)); got != want {
			t.Errorf("%s: %d rows, want %d", d.size, got, want)
		}
		for _, c := range d.cells {
			s := report.Results.Median(benchmark(d.size, c.messages, "frames"))
			if s.NS <= 0 || s.MBs <= 0 {
				t.Errorf("%s, %d messages: %+v", d.size, c.messages, s)
			}
		}
	}
}

func TestVerdicts(t *testing.T) {
	d := document{"small", 50, []cell{{messages: 4, figures: micro.Sample{NS: 100, MBs: 100}}}}
	r := micro.Results{"Parser/small/4/frames": {{NS: 10}}, "Parser/small/4/bufio": {{NS: 31}}}
	if got := verdicts(d, r); len(got) != 1 || strings.Contains(got[0], "MISSED") {
		t.Errorf("all is well, but %q", got)
	}
	r["Parser/small/4/bufio"][0].NS = 29
	r["Parser/small/4/frames"][0].Allocs = 1
	if got := strings.Join(verdicts(d, r), "; "); !strings.Contains(got, "1 allocations") || !strings.Contains(got, "2.90") {
		t.Errorf("two are missed: %q", got)
	}
	d.limit = 5000 // it need only be quicker
	r["Parser/small/4/frames"][0].Allocs = 0
	if got := verdicts(d, r); strings.Contains(got[0], "MISSED") {
		t.Errorf("all is well, but %q", got)
	}
}
