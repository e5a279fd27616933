package curves

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func line(qps ...float64) (points []Point) {
	for i, v := range qps {
		points = append(points, Point{X: 1 << i, QPS: v})
	}
	return points
}

func TestKnees(t *testing.T) {
	for _, c := range []struct {
		name          string
		points        []Point
		settles, most int
	}{
		{"rises and stays", line(10, 50, 95, 100, 99), 4, 4},
		{"falls and stays", line(200, 120, 105, 100), 4, 1},
		{"never stays", line(10, 20, 40), 4, 4},
		{"rises and falls", line(10, 100, 50, 48), 4, 2},
		{"comes back", line(100, 50, 100), 4, 1},
		{"nothing", nil, 0, 0},
	} {
		if got := settles(c.points); got != c.settles {
			t.Errorf("%s: settles at %d, want %d", c.name, got, c.settles)
		}
		if got := nearsMost(c.points); got != c.most {
			t.Errorf("%s: near the most at %d, want %d", c.name, got, c.most)
		}
	}
}

func TestCurvesAreDrawn(t *testing.T) {
	report, err := Run(t.Context(), Settings{
		Systems: []string{"tandem", "netrpc-gob"}, Requests: []int{1, 100}, Callers: []int{1, 4}, Connections: []int{1, 2}, PerConn: 3,
		Rounds: 2, Warmup: 5 * time.Millisecond, Duration: 40 * time.Millisecond, Timeout: time.Minute,
	}, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Errors) > 0 || len(report.Curves) != 3 {
		t.Fatalf("%d curves, errors: %v", len(report.Curves), report.Errors)
	}
	for _, c := range report.Curves {
		for _, s := range c.Series {
			if len(s.Points) != 2 || s.Knee == 0 {
				t.Errorf("%s, %s: points %v, knee %d", c.Name, s.System, s.Points, s.Knee)
			}
			for _, p := range s.Points {
				if len(p.Rounds) != 2 || p.Least <= 0 || p.QPS < p.Least || p.QPS > p.Most {
					t.Errorf("%s, %s: %+v", c.Name, s.System, p)
				}
			}
		}
	}
	var text bytes.Buffer
	if err := report.WriteTable(&text); err != nil || strings.Count(text.String(), "netrpc-gob") != 3 || strings.Count(text.String(), "*") < 7 {
		t.Errorf("the table: %v\n%s", err, &text)
	}
	if _, err := json.Marshal(report); err != nil {
		t.Error(err)
	}
}

func TestFailedPointsAreReported(t *testing.T) {
	report, err := Run(t.Context(), Settings{
		Systems: []string{"floor-plain"}, Requests: []int{1}, Callers: []int{2}, PerConn: 1,
		Rounds: 1, Duration: time.Millisecond, Timeout: time.Minute,
	}, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Errors) != 1 || !strings.Contains(report.Errors[0], "one call at a time") {
		t.Errorf("errors %q, want one: floor-plain cannot share a connection", report.Errors)
	}
}

// interrupter interrupts a run at its first line of progress.
type interrupter func()

func (interrupt interrupter) Write(b []byte) (int, error) {
	interrupt()
	return len(b), nil
}

func TestAnInterruptedRunDrawsWhatItHas(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	report, err := Run(ctx, Settings{
		Systems: []string{"floor-mux", "netrpc"}, Requests: []int{1}, Callers: []int{2}, PerConn: 1, Rounds: 1, Timeout: time.Minute,
	}, interrupter(interrupt))
	if !errors.Is(err, context.Canceled) || report == nil {
		t.Fatalf("error %v, report %v, want that it was interrupted and has a report", err, report)
	}
	if len(report.Curves) != 1 || len(report.Curves[0].Series[0].Points) != 1 || len(report.Curves[0].Series[1].Points) != 0 {
		t.Errorf("curves %+v, want a point of the first system alone", report.Curves)
	}
}

func TestRunRefusesWhatCannotBeMeant(t *testing.T) {
	for _, s := range []Settings{
		{Requests: []int{1}, PerConn: 1, Rounds: 1},
		{Systems: []string{"netrpc"}, PerConn: 1, Rounds: 1},
		{Systems: []string{"netrpc"}, Callers: []int{0}, PerConn: 1, Rounds: 1},
		{Systems: []string{"telepathy"}, Callers: []int{1}, PerConn: 1, Rounds: 1},
	} {
		if _, err := Run(t.Context(), s, t.Output()); err == nil {
			t.Errorf("%+v: no error", s)
		}
	}
}
