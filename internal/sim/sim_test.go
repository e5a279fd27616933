package sim

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

var all = flag.Bool("all", false, "play every scenario and planted fault, and compare with the report; make sim-check does")

var long = flag.Bool("large", false, "play the large scenarios and their planted faults, which takes many minutes; make sim-large does")

// light are the scenarios for short runs.
var light = []string{"slow-node", "metastable", "reconnect-herd", "list-collapse"}

// played returns the scenarios of this run. The race detector gets one only: a run has one
// goroutine.
func played() []*Scenario {
	chosen := light
	switch {
	case raceDetector:
		chosen = []string{"reconnect-herd"}
	case *all:
		return Scenarios()
	}
	return slices.DeleteFunc(Scenarios(), func(s *Scenario) bool { return !slices.Contains(chosen, s.Name) })
}

// Every scenario reaches its figures, and with the seed of the report it gives the report:
// after a change of a policy run "make sim" and review the changes.
func TestScenarios(t *testing.T) {
	o := Options{Seed: 1}
	results := make([]Result, len(played()))
	t.Run("all", func(t *testing.T) { play(t, results, o) })
	if len(results) == len(Scenarios()) && runtime.GOARCH == "amd64" {
		wantReport(t, results, o)
	}
}

func play(t *testing.T, results []Result, o Options) {
	for i, s := range played() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel() // a run has one goroutine
			r := Result{s, s.Run(o)}
			results[i] = r
			for _, missed := range s.Missed(r.Outcome) {
				t.Error(missed)
			}
			if len(r.Seen) != len(s.Figures) || len(r.Naive) != len(s.Figures) {
				t.Errorf("%d figures, %d seen, %d naive", len(s.Figures), len(r.Seen), len(r.Naive))
			}
		})
	}
}

// wantReport compares the results with the files that "make sim" has written.
func wantReport(t *testing.T, results []Result, o Options) {
	t.Helper()
	var report bytes.Buffer
	Report(&report, results, o)
	charts, err := Charts(results)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]byte{"README.md": report.Bytes(), "charts.json": charts} {
		got, err := os.ReadFile("../../docs/sim/" + name)
		if err != nil || !bytes.Equal(bytes.ReplaceAll(got, []byte("\r\n"), []byte("\n")), want) {
			t.Errorf("docs/sim/%s is stale (%v): run \"make sim\"", name, err)
		}
	}
}

// Every planted fault makes a scenario miss a figure.
func TestPlantedFaultsAreSeen(t *testing.T) {
	if raceDetector {
		t.Skip("made without the race detector: a run has one goroutine")
	}
	for _, s := range played() {
		if len(s.Faults) == 0 {
			t.Errorf("%s has no fault to plant", s.Name)
		}
		for _, fault := range s.Faults {
			t.Run(s.Name+"/"+fault, func(t *testing.T) {
				t.Parallel() // as above
				missed := s.Missed(s.Run(Options{Seed: 1, Fault: fault}))
				if len(missed) == 0 {
					t.Error("all figures are reached")
				}
				t.Log(strings.Join(missed, "; "))
			})
		}
	}
}

// The large scenarios reach their figures, and each planted fault makes one miss.
func TestLargeScenarios(t *testing.T) {
	if !*long {
		t.Skip("it takes many minutes: make sim-large")
	}
	for _, s := range Large() {
		for _, fault := range append([]string{""}, s.Faults...) {
			t.Run(s.Name+"/"+fault, func(t *testing.T) {
				missed := s.Missed(s.Run(Options{Seed: 1, Fault: fault}))
				if (len(missed) > 0) != (fault != "") {
					t.Errorf("missed: %q", missed)
				}
				t.Log(strings.Join(missed, "; "))
			})
		}
	}
}

// The same seed repeats a run, bit for bit; another seed gives another run.
func TestRunsRepeat(t *testing.T) {
	if raceDetector {
		t.Skip("made without the race detector: a run has one goroutine")
	}
	for _, name := range []string{"list-collapse", "reconnect-herd", "overload-dependency"} {
		i := slices.IndexFunc(Scenarios(), func(s *Scenario) bool { return s.Name == name })
		run := func(seed uint64) Outcome { return Scenarios()[i].Run(Options{Seed: seed}) }
		first, again, other := run(1), run(1), run(2)
		if first.Digest != again.Digest || first.Events != again.Events {
			t.Errorf("%s: %d events, digest %x, and again %d, %x", name, first.Events, first.Digest, again.Events, again.Digest)
		}
		if a, b := jsonOf(t, first.Chart), jsonOf(t, again.Chart); a != b {
			t.Errorf("%s: another plot", name)
		}
		if first.Digest == other.Digest {
			t.Errorf("%s: another seed, but the same run", name)
		}
	}
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The figures also hold for other seeds than the report's.
func TestOtherSeeds(t *testing.T) {
	if !*all || raceDetector {
		t.Skip("one seed is enough here")
	}
	for _, s := range Scenarios() {
		if !slices.Contains(light, s.Name) || s.Name == "slow-node" {
			continue
		}
		for seed := uint64(2); seed < 5; seed++ {
			if missed := s.Missed(s.Run(Options{Seed: seed})); len(missed) > 0 {
				t.Errorf("%s, seed %d: %s", s.Name, seed, strings.Join(missed, "; "))
			}
		}
	}
}

// Events come in the order of their times, and at the same time in the order in which they were
// planned.
func TestWorldPlaysInOrder(t *testing.T) {
	w := newWorld(7)
	var got, want []int
	var at [1000]time.Duration
	for i := range at {
		at[i] = time.Duration(w.random.IntN(50)) * time.Millisecond
		want = append(want, i)
		w.after(at[i], func() {
			if w.since() != at[i] {
				t.Errorf("event %d at %v instead of %v", i, w.since(), at[i])
			}
			got = append(got, i)
		})
	}
	slices.SortStableFunc(want, func(a, b int) int { return int(at[a] - at[b]) })
	w.run(time.Second)
	if !slices.Equal(got, want) || len(w.broken) > 0 {
		t.Errorf("out of order: %v …, want %v …; %v", got[:min(10, len(got))], want[:10], w.broken)
	}
}

// Broken invariants are reported.
func TestBrokenInvariantsAreSeen(t *testing.T) {
	for what, breaks := range map[string]func(*cluster){
		"a call that never ends":  func(c *cluster) { c.begun++ },
		"a call that ends twice":  func(c *cluster) { k := c.clients[0].start("", func(error) {}); k.end(nil); k.end(nil) },
		"a call in flight":        func(c *cluster) { c.clients[0].table.Nodes()[0].Stats.Begin() },
		"retries beyond budgets":  func(c *cluster) { c.retried += 1_000_000 },
		"time that went backward": func(c *cluster) { c.after(0, func() {}); c.events[0].at = 0 },
	} {
		c := newCluster(newWorld(1))
		c.addServers(2, 1, time.Millisecond)
		c.addClients(1, settings{policy: leastLatency(), timeout: time.Second, budgeted: true})
		c.load(steady(10), time.Second)
		breaks(c)
		c.finish(3 * time.Second)
		if len(c.broken) == 0 {
			t.Errorf("%s is not noticed", what)
		}
	}
}
