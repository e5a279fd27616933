// Package balancers measures how long a choice among many nodes takes: every
// policy of package balance, with one goroutine and with several, and when the
// list has just changed.
package balancers

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/bench/micro"
)

// policies are all that package balance has; a test holds the list to that.
func policies() []balance.Policy {
	next := balance.P2C()
	return []balance.Policy{
		balance.Random(), balance.RoundRobin(), balance.P2C(), balance.RingHash(), balance.Maglev(), balance.JumpHash(),
		balance.LeastInFlight(), balance.ShortestLatency(), balance.LeastReported(), balance.LeastLoaded(),
		balance.Route(next), balance.Zone("here", next), balance.Closest(tandem.Position{}, next), balance.Subset(20, "me", next),
		balance.Aperture(3, 7, 12, next), balance.SlowStart(30*time.Second, next), balance.SlowStartCurve(30*time.Second, 2, balance.Random()),
		balance.Sticky(next),
	}
}

// Plan says what is measured.
type Plan struct {
	Nodes      []int // lengths of the list
	Goroutines []int // that choose at the same time
}

// Check finds what cannot be meant.
func (p Plan) Check() error {
	for _, n := range append(append([]int(nil), p.Nodes...), p.Goroutines...) {
		if n < 1 {
			return fmt.Errorf("balancers: %d nodes or goroutines: there must be at least one", n)
		}
	}
	if len(p.Nodes) == 0 || len(p.Goroutines) == 0 {
		return errors.New("balancers: nothing to measure: no numbers of nodes or of goroutines")
	}
	return nil
}

// weights are how the nodes' weights may be.
var weights = []struct {
	name string
	of   func(i int) int
}{
	{"even", func(int) int { return tandem.DefaultWeight }},
	{"weighted", func(i int) int { return 1 + i%7*50 }},
}

// Source has the benchmarks of the plan.
func (p Plan) Source() micro.Source {
	var group micro.Group
	calls := newCalls()
	for _, policy := range policies() {
		for _, w := range weights {
			for _, n := range p.Nodes {
				list := instances(n, w.of)
				for _, g := range p.Goroutines {
					group = append(group, micro.Bench{
						Name: pickName(policy.Name(), w.name, n, g),
						Func: func(b *testing.B) error { return picks(b, used(newTable(policy, list)), calls, g) },
					})
				}
				group = append(group, micro.Bench{
					Name: changeName(policy.Name(), w.name, n),
					Func: func(b *testing.B) error { return changes(b, newTable(policy, list), list, calls[0]) },
				})
			}
		}
	}
	return group
}

func pickName(policy, weights string, nodes, goroutines int) string {
	return fmt.Sprintf("Pick/%s/%s/%d/%d", policy, weights, nodes, goroutines)
}

func changeName(policy, weights string, nodes int) string {
	return fmt.Sprintf("Change/%s/%s/%d", policy, weights, nodes)
}

func instances(n int, weight func(i int) int) []tandem.Instance {
	list := make([]tandem.Instance, n)
	for i := range list {
		list[i] = tandem.Instance{ID: "10.0.0.1:" + strconv.Itoa(1024+i), Weight: weight(i), Zone: "here"}
		if i%3 > 0 {
			list[i].Zone = "there"
		}
	}
	return list
}

// newCalls have different keys, for the policies that choose by them.
func newCalls() []*tandem.Call {
	list := make([]*tandem.Call, 1<<8)
	for i := range list {
		list[i] = &tandem.Call{Method: "Hello.Say", HashKey: "user-" + strconv.Itoa(i)}
	}
	return list
}

func newTable(policy balance.Policy, list []tandem.Instance) *balance.Table {
	t := balance.NewTable(policy)
	t.Update(list)
	return t
}

// used has calls behind it, as the table of a client that runs: ten at each instance,
// which took one to five milliseconds.
func used(t *balance.Table) *balance.Table {
	for i, n := range t.Nodes() {
		now := balance.Now()
		for range 10 {
			n.Stats.Begin()
			n.Stats.DoneAt(now, now+time.Duration(1+i%5)*time.Millisecond, false)
		}
	}
	return t
}

// usable costs about what a client's own question costs: a look at the node.
func usable(n *balance.Node) bool { return n.Stats != nil }

var errNobody = errors.New("no node was chosen")

// picks chooses b.N nodes from goroutines that share them evenly. What it
// measures beside is the time that a running goroutine takes for a pick: with no
// contention it is the same for any number of them.
func picks(b *testing.B, table *balance.Table, calls []*tandem.Call, goroutines int) error {
	var all sync.WaitGroup
	var failed sync.Once
	var err error
	b.ResetTimer()
	began := time.Now()
	for g := range goroutines {
		all.Go(func() {
			if pick(table, calls, share(b.N, goroutines, g)) != nil {
				failed.Do(func() { err = errNobody })
			}
		})
	}
	all.Wait()
	running := min(goroutines, runtime.GOMAXPROCS(0))
	b.ReportMetric(float64(time.Since(began))*float64(running)/float64(b.N), micro.Extra)
	return err
}

// pick chooses that often, each time for another call.
func pick(table *balance.Table, calls []*tandem.Call, times int) error {
	for i := range times {
		if table.Pick(calls[i%len(calls)], usable) == nil {
			return errNobody
		}
	}
	return nil
}

// share is the part of n that is the g-th of so many goroutines'.
func share(n, goroutines, g int) int { return n*(g+1)/goroutines - n*g/goroutines }

// changes measures a change of the list with the first pick after it, which
// pays for what a policy puts off until then. The pick alone is the extra.
func changes(b *testing.B, table *balance.Table, list []tandem.Instance, call *tandem.Call) error {
	shorter := list[:max(1, len(list)-1)]
	var picking time.Duration
	for i := 0; b.Loop(); i++ {
		if i%2 == 0 {
			table.Update(shorter)
		} else {
			table.Update(list)
		}
		began := time.Now()
		if table.Pick(call, usable) == nil {
			return errNobody
		}
		picking += time.Since(began)
	}
	b.ReportMetric(float64(picking)/float64(b.N), micro.Extra)
	return nil
}
