package balance

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
)

// play makes calls to ten instances in a world with its own clock and random numbers, and
// returns the picked ones.
func play(p Policy, seed uint64) (picked []string) {
	now, random := time.Second, rand.NewPCG(seed, 0)
	world := &World{Now: func() time.Duration { return now }, Random: random.Uint64}
	table := NewTableIn(world, p)
	instances := make([]tandem.Instance, 10)
	for i := range instances {
		instances[i] = tandem.Instance{ID: fmt.Sprint("i", i), Weight: 100 + 50*(i%3)}
	}
	table.Update(instances)
	for i := range 2000 {
		n := table.Pick(&tandem.Call{HashKey: fmt.Sprint(i % 7)}, func(n *Node) bool { return n.Instance.ID != "i3" })
		began := now
		n.Stats.Begin()
		now += time.Duration(len(picked)%5) * 20 * time.Millisecond
		n.Stats.DoneAt(began, now, i%9 == 0)
		picked = append(picked, n.Instance.ID)
	}
	return picked
}

// In a world of its own a table repeats its picks: nothing else provides time or random
// numbers.
func TestWorldIsRepeatable(t *testing.T) {
	for _, p := range policies() {
		first := play(p, 1)
		if !slices.Equal(first, play(p, 1)) {
			t.Errorf("%s: another run of the same world picked others", p.Name())
		}
		if strings.HasSuffix(p.Name(), "hash") || p.Name() == "maglev" { // they use no random numbers
			continue
		}
		if slices.Equal(first, play(p, 2)) {
			t.Errorf("%s: another world, but the same picks", p.Name())
		}
	}
}

// Latencies are measured by the clock of the world.
func TestWorldHasItsOwnClock(t *testing.T) {
	now := time.Hour
	table := NewTableIn(&World{Now: func() time.Duration { return now }, Random: rand.Uint64}, RoundRobin())
	table.Update([]tandem.Instance{{ID: "a"}})
	s := table.Nodes()[0].Stats
	s.Begin()
	now += 3 * time.Second
	s.DoneAt(time.Hour, now, false)
	if s.Latency() != 3*time.Second || s.Peak() != 3*time.Second {
		t.Errorf("latency %v, peak %v after a call of 3 s", s.Latency(), s.Peak())
	}
}

// Reports expire by the clock of the world.
func TestWorldAgesReports(t *testing.T) {
	now := time.Hour
	table := NewTableIn(&World{Now: func() time.Duration { return now }, Random: rand.NewPCG(1, 2).Uint64}, LeastLoaded())
	table.Update([]tandem.Instance{{ID: "a"}, {ID: "b"}})
	busy := table.Nodes()[0].Stats
	busy.ReportAt(now, Load{InFlight: 5})
	for _, want := range []int{5, 0} {
		for range 200 {
			table.Pick(nil, all)
		}
		if calls, _ := busy.Reported(); calls != want {
			t.Errorf("after %v: %d calls of others, want %d", now-time.Hour, calls, want)
		}
		now += reportLife + time.Second
	}
}

// Only world.go uses the process's clock or random numbers.
func TestTimeAndChanceComeFromTheWorld(t *testing.T) {
	names, err := filepath.Glob("*.go")
	if err != nil || len(names) < 10 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || name == "world.go" {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, where := range outsideWorld(f) {
			t.Errorf("%s: %s: take it from the World", name, where)
		}
	}
}

// outsideWorld finds uses of the process's clock and random numbers in a file.
func outsideWorld(f *ast.File) (found []string) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch v := n.(type) {
		case *ast.ImportSpec:
			if strings.HasPrefix(v.Path.Value, `"math/rand`) {
				found = append(found, v.Path.Value)
			}
		case *ast.FuncDecl:
			return !slices.Contains([]string{"Now", "Done", "Report"}, v.Name.Name) // the process's clock itself, and functions for clients that use it
		case *ast.ValueSpec:
			return v.Names[0].Name != "processBegan" // as above
		case *ast.CallExpr:
			if fn, ok := v.Fun.(*ast.Ident); ok && fn.Name == "Now" {
				found = append(found, "Now()")
			}
		case *ast.SelectorExpr:
			if pkg, ok := v.X.(*ast.Ident); ok && pkg.Name == "time" && slices.Contains([]string{"Now", "Since", "Until"}, v.Sel.Name) {
				found = append(found, "time."+v.Sel.Name)
			}
		}
		return true
	})
	return found
}
