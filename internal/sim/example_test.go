package sim_test

import (
	"fmt"
	"os"

	"github.com/tandem-rpc/tandem/internal/sim"
)

// A scenario reaches its figures, and with a planted fault it does not.
func ExampleScenario_Run() {
	for _, s := range sim.Scenarios() {
		if s.Name != "reconnect-herd" {
			continue
		}
		for _, fault := range []string{"", "no jitter"} {
			out := s.Run(sim.Options{Seed: 1, Fault: fault})
			fmt.Printf("fault %q: missed %d of %d figures\n", fault, len(s.Missed(out)), len(s.Figures))
		}
	}
	// Output:
	// fault "": missed 0 of 3 figures
	// fault "no jitter": missed 3 of 3 figures
}

func ExampleRunAll() {
	var few []*sim.Scenario
	for _, s := range sim.Scenarios() {
		if s.Name == "metastable" {
			few = append(few, s)
		}
	}
	o := sim.Options{Seed: 1}
	results := sim.RunAll(few, o, func(r sim.Result) { r.Table(os.Stderr) })
	charts, err := sim.Charts(results)
	fmt.Println(len(results), len(charts) > 1000, err)
	fmt.Println(results[0].Figures[0].What, results[0].Figures[0].Wanted())
	// Output:
	// 1 true <nil>
	// calls that succeed from 5 s after 650 ms, worst run ≥ 99 %
}
