package balancers

import (
	"fmt"
	"strconv"

	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/bench/figures"
	"github.com/tandem-rpc/tandem/bench/micro"
)

// most is what a pick should take at most, in ns, whatever the number of nodes
// and goroutines.
const most = 30

// Tables has a table of picks and one of changes.
func (p Plan) Tables(r micro.Results) []figures.Table {
	picks := figures.Table{
		Title: "ns that a running goroutine takes for a pick, with so many at it; more for two than for one means that they hinder each other",
		Heads: []string{"policy", "weights", "nodes"},
	}
	for _, g := range p.Goroutines {
		picks.Heads = append(picks.Heads, fmt.Sprintf("%d at once", g))
	}
	picks.Heads = append(picks.Heads, "allocs/op")
	changes := figures.Table{
		Title: "a change of the list and the first pick after it",
		Heads: []string{"policy", "weights", "nodes", "µs a change", "ns the first pick", "B/op", "allocs/op"},
	}
	for _, policy := range policies() {
		for _, w := range weights {
			for _, n := range p.Nodes {
				cell := []string{policy.Name(), w.name, strconv.Itoa(n)}
				picks.Rows = append(picks.Rows, append(cell[:3:3], p.pickFigures(r, policy.Name(), w.name, n)...))
				changes.Rows = append(changes.Rows, append(cell[:3:3], changeFigures(r.Median(changeName(policy.Name(), w.name, n)))...))
			}
		}
	}
	picks.Notes = p.verdicts(r)
	changes.Notes = []string{"The first pick includes two readings of the clock."}
	return []figures.Table{picks, changes}
}

func (p Plan) pickFigures(r micro.Results, policy, weights string, nodes int) []string {
	var row []string
	allocs := 0.0
	for _, g := range p.Goroutines {
		s := r.Median(pickName(policy, weights, nodes, g))
		row = append(row, figures.Number(s.Extra))
		allocs = max(allocs, s.Allocs)
	}
	return append(row, figures.Number(allocs))
}

func changeFigures(s micro.Sample) []string {
	return []string{figures.Number((s.NS - s.Extra) / 1000), figures.Number(s.Extra), figures.Number(s.Bytes), figures.Number(s.Allocs)}
}

// verdicts names the policies that take longer than they should. Those that look
// at a key or at every node have no target.
func (p Plan) verdicts(r micro.Results) []string {
	var notes []string
	for _, policy := range []balance.Policy{balance.Random(), balance.RoundRobin(), balance.P2C()} {
		slowest, where := 0.0, ""
		for _, w := range weights {
			for _, n := range p.Nodes {
				for _, g := range p.Goroutines {
					if ns := r.Median(pickName(policy.Name(), w.name, n, g)).Extra; ns > slowest {
						slowest, where = ns, fmt.Sprintf("%s, %d nodes, %d at once", w.name, n, g)
					}
				}
			}
		}
		verdict := "within"
		if slowest > most {
			verdict = "MISSED"
		}
		notes = append(notes, fmt.Sprintf("%s %d ns: %s takes %s ns at most (%s)", verdict, most, policy.Name(), figures.Number(slowest), where))
	}
	return notes
}
