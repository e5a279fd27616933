package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// Result is a scenario with its outcome.
type Result struct {
	*Scenario
	Outcome
}

// RunAll plays scenarios one after the other, and calls done with the result of each.
func RunAll(scenarios []*Scenario, o Options, done func(Result)) []Result {
	var results []Result
	for _, s := range scenarios {
		r := Result{s, s.Run(o)}
		done(r)
		results = append(results, r)
	}
	return results
}

// Table writes the figures of a result, one a line: the wanted value, the seen one, that of the
// naive policy, and the verdict.
func (r Result) Table(w io.Writer) {
	for i, f := range r.Figures {
		fmt.Fprintf(w, "%-15s %-66s %9s %12s %12s  %s\n", r.Name, f.What, f.Wanted(), f.Show(r.Seen[i]), r.naive(i), f.verdict(r.Seen[i]))
	}
	for _, b := range r.Broken {
		fmt.Fprintf(w, "%-15s an invariant does not hold: %s\n", r.Name, b)
	}
}

// naive returns the value of a figure under the naive policy.
func (r Result) naive(i int) string {
	if r.Naive == nil {
		return "–"
	}
	return r.Figures[i].Show(r.Naive[i])
}

func (f Figure) verdict(seen float64) string {
	if f.holds(seen) {
		return "holds"
	}
	return "MISSED"
}

// Report writes the results as Markdown, with a plot of each scenario. It writes the same text
// for the same seed.
func Report(w io.Writer, results []Result, o Options) {
	var events uint64
	var simulated time.Duration
	for _, r := range results {
		events += r.Events
		simulated += r.Simulated
	}
	fmt.Fprintf(w, head, len(results), simulated.Seconds(), float64(events)/1e6, o.Seed)
	reportBody(w, results)
}

// ReportLarge writes the results of the large scenarios as Report does.
func ReportLarge(w io.Writer, results []Result, o Options) {
	fmt.Fprintf(w, largeHead, o.Seed)
	reportBody(w, results)
}

func reportBody(w io.Writer, results []Result) {
	fmt.Fprint(w, "\n| scenario | figure | wanted | seen | naive | verdict |\n|---|---|---|---|---|---|\n")
	for _, r := range results {
		for i, f := range r.Figures {
			fmt.Fprintf(w, "| [%s](#%s) | %s | %s | %s | %s | %s |\n",
				r.Name, r.Name, f.What, f.Wanted(), f.Show(r.Seen[i]), r.naive(i), f.verdict(r.Seen[i]))
		}
	}
	for _, r := range results {
		fmt.Fprintf(w, "\n## %s\n\n%s.\n\n%s\n\n", r.Name, r.Title, r.Story)
		fmt.Fprintf(w, "![%s](%s.svg)\n\n", r.Title, r.Name)
		fmt.Fprintf(w, "Defence: %s. Naive: %s. Planted faults that make it miss: %s.\n\n", r.Defence, r.Against, strings.Join(r.Faults, "; "))
		fmt.Fprintf(w, "%d events in %.0f s of virtual time, digest %016x.\n", r.Events, r.Simulated.Seconds(), r.Digest)
	}
}

// Charts returns the plots of the results in the JSON that "bench draw" reads.
func Charts(results []Result) ([]byte, error) {
	charts := make([]Chart, len(results))
	for i, r := range results {
		charts[i] = r.Chart
	}
	text, err := json.Marshal(charts)
	text = bytes.ReplaceAll(text, []byte(`,{"name":"`), []byte(",\n{\"name\":\"")) // each plot and each series on a line of its own
	return append(text, '\n'), err
}

const largeHead = `# Large fleets in virtual time

<!-- made by "make sim"; do not edit -->

As [the other scenarios](README.md), seed %d; these take minutes, and CI does not play them. What the figures mean for a system
is in [beyond one cluster](../explanation/beyond-one-cluster.md).
`

const head = `# Policies in virtual time

<!-- made by "make sim"; do not edit -->

What the policies do when a cluster is in trouble, and what happens under a naive one. The [simulator](../../internal/sim/world.go) plays servers, networks and
clients in virtual time, in one goroutine; pickers, breakers, outlier detection, budgets, backoff and the registry's keeper are the real
packages, imported as they are. How clients put them together (picking, ejecting, retrying) is played after package client.
Each scenario has figures, and faults that can be planted: each takes a part of the defence away, and a test wants
the figures to be missed then.

    make sim                                               # all scenarios, this report and its plots
    go run ./internal/sim/cmd/sim -only slow-node -fault unmeasured

%d scenarios, %.0f s of virtual time, %.1f million events, seed %d. A run is decided by its seed: it gives the same digest again
(on the same processor architecture; others round floating-point numbers elsewhere). In every run retries stayed within their budgets and time never went
back; but for overload, which has a server and no balancing, each call ended exactly once, and nothing was in flight at the end. Otherwise the run fails.
`
