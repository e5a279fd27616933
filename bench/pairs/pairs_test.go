package pairs

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/bench/harness"
	"github.com/tandem-rpc/tandem/bench/load"
)

// The interval of known numbers: mean 0.02, standard deviation 0.01 over four pairs, t =
// 3.182.
func TestInterval(t *testing.T) {
	d := 0.01 * math.Sqrt(3.0/4)
	r := interval([]float64{0.02 - d, 0.02 - d, 0.02 + d, 0.02 + d})
	want := Ratio{math.Exp(0.02), math.Exp(0.02 - 3.182*0.005), math.Exp(0.02 + 3.182*0.005)}
	for _, x := range [][2]float64{{r.Mean, want.Mean}, {r.Low, want.Low}, {r.High, want.High}} {
		if math.Abs(x[0]-x[1]) > 1e-9 {
			t.Errorf("got %v, want %v", r, want)
		}
	}
}

func TestStudent(t *testing.T) {
	for freedom, want := range map[int]float64{1: 12.706, 2: 4.303, 11: 2.228, 19: 2.093, 1000: 1.984} {
		if got := student(freedom); got != want {
			t.Errorf("%d degrees of freedom: %v, want %v", freedom, got, want)
		}
	}
}

func sample(calls int64) harness.Sample {
	return harness.Sample{
		System: "tandem", Cell: harness.Cell{Mode: "shared", Callers: 8},
		Client: load.Result{Calls: calls, Usage: load.Usage{Wall: time.Second, CPU: time.Second}},
		Server: load.Usage{Wall: time.Second, CPU: time.Second},
	}
}

// A loss is found, and a loss that noise may hide is not excluded.
func TestJudge(t *testing.T) {
	run := func(calls ...int64) (runs [][]harness.Sample) {
		for _, n := range calls {
			runs = append(runs, []harness.Sample{sample(n)})
		}
		return runs
	}
	for name, c := range map[string]struct {
		old, new [][]harness.Sample
		ok       bool
	}{
		"the same":    {run(1000, 1010, 990), run(1001, 1011, 992), true},
		"a loss":      {run(1000, 1010, 990), run(950, 960, 940), false},
		"only noise":  {run(1000, 800, 1200), run(800, 1200, 1000), false},
		"a real gain": {run(1000, 1010, 990), run(1100, 1120, 1090), true},
	} {
		rows := compare(c.old, c.new)
		if err := Judge(rows, 0.02); (err == nil) != c.ok {
			t.Errorf("%s: %v, %+v", name, err, rows)
		}
		var text strings.Builder
		if err := Write(&text, rows); err != nil || !strings.Contains(text.String(), "shared, 8 callers") {
			t.Errorf("%s: %v\n%s", name, err, &text)
		}
	}
}
