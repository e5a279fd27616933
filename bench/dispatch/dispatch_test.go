package dispatch

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/bench/micro"
)

// Every row of every table is measured.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("builds another package's tests twice")
	}
	report, err := micro.Run(t.Context(), micro.Settings{Count: 1, Time: time.Millisecond}, io.Discard, Sources()...)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range builds {
		for _, m := range methods {
			if s := report.Results.Median(b.prefix + m.name); s.NS <= 0 {
				t.Errorf("%s: %s: %+v", b.text, m.name, s)
			}
		}
		for _, c := range documentCells {
			if s := report.Results.Median(b.prefix + "Call/" + c.name); s.NS <= 0 {
				t.Errorf("%s: %s: %+v", b.text, c.name, s)
			}
		}
	}
	if s := report.Results.Median(typed); s.Allocs != 1 {
		t.Errorf("a typed handler allocates %v objects, want its arguments", s.Allocs)
	}
	for _, table := range Tables(report.Results) {
		for _, row := range table.Rows {
			if len(row) != len(table.Heads) {
				t.Errorf("%s: row %q below %q", table.Title, row, table.Heads)
			}
		}
	}
}

func TestVerdict(t *testing.T) {
	r := micro.Results{direct: {{NS: 15}}, typed: {{NS: 24}}, "-l/" + direct: {{NS: 15}}, "-l/" + typed: {{NS: 26}}}
	if got := verdict(r, ""); !strings.HasPrefix(got, "within 10 ns") {
		t.Error(got)
	}
	if got := verdict(r, "-l/"); !strings.HasPrefix(got, "MISSED 10 ns") || !strings.Contains(got, "takes 11 ") {
		t.Error(got)
	}
}
