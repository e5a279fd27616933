package balancers

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/bench/micro"
)

// Who adds a policy to package balance adds it to the list here.
func TestEveryPolicyIsMeasured(t *testing.T) {
	files, err := filepath.Glob("../../balance/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("package balance has %d files, %v", len(files), err)
	}
	var found []string
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && makesPolicy(f) {
				found = append(found, f.Name.Name)
			}
		}
	}
	if len(found) != len(policies()) {
		t.Errorf("package balance has %v, and %d policies are measured", found, len(policies()))
	}
}

// makesPolicy reports whether an exported function returns a Policy.
func makesPolicy(f *ast.FuncDecl) bool {
	if f.Recv != nil || !f.Name.IsExported() || f.Type.Results == nil || len(f.Type.Results.List) != 1 {
		return false
	}
	result, ok := f.Type.Results.List[0].Type.(*ast.Ident)
	return ok && result.Name == "Policy"
}

func TestRun(t *testing.T) {
	plan := Plan{Nodes: []int{1, 10}, Goroutines: []int{1, 3}}
	report, err := micro.Run(t.Context(), micro.Settings{Count: 1, Time: time.Millisecond}, io.Discard, plan.Source())
	if err != nil {
		t.Fatal(err)
	}
	if want := len(policies()) * len(weights) * 2 * 3; len(report.Results) != want {
		t.Errorf("%d benchmarks, want %d", len(report.Results), want)
	}
	for name, samples := range report.Results {
		if s := samples[0]; s.NS <= 0 || s.Extra <= 0 {
			t.Errorf("%s: %+v", name, s)
		}
	}
	for _, table := range plan.Tables(report.Results) {
		if want := len(policies()) * len(weights) * 2; len(table.Rows) != want {
			t.Errorf("%s: %d rows, want %d", table.Title, len(table.Rows), want)
		}
		for _, row := range table.Rows {
			if len(row) != len(table.Heads) {
				t.Errorf("%s: row %q below %q", table.Title, row, table.Heads)
			}
		}
	}
}

func TestVerdicts(t *testing.T) {
	plan := Plan{Nodes: []int{10}, Goroutines: []int{2}}
	r := micro.Results{pickName("random", "even", 10, 2): {{Extra: 29}}, pickName("roundrobin", "weighted", 10, 2): {{Extra: 31}}}
	got := plan.verdicts(r)
	if !strings.HasPrefix(got[0], "within 30 ns: random") || !strings.HasPrefix(got[1], "MISSED 30 ns: roundrobin") {
		t.Errorf("verdicts %q", got)
	}
}

// nobody is a policy that never finds a node.
type nobody struct{}

func (nobody) Name() string                                              { return "nobody" }
func (nobody) Needs() balance.Needs                                      { return balance.Needs{} }
func (nobody) Build([]*balance.Node) balance.Picker                      { return nobody{} }
func (nobody) Pick(*tandem.Call, func(*balance.Node) bool) *balance.Node { return nil }

// A policy that finds nobody is not quick but broken.
func TestNobodyIsAnError(t *testing.T) {
	list := instances(3, weights[0].of)
	table := newTable(nobody{}, list)
	group := micro.Group{{Name: "Pick", Func: func(b *testing.B) error { return picks(b, table, newCalls(), 2) }}}
	if _, err := micro.Run(t.Context(), micro.Settings{Count: 1, Time: time.Millisecond}, io.Discard, group); err == nil {
		t.Error("picks of nobody are measured")
	}
	group[0].Func = func(b *testing.B) error { return changes(b, table, list, newCalls()[0]) }
	if _, err := micro.Run(t.Context(), micro.Settings{Count: 1, Time: time.Millisecond}, io.Discard, group); err == nil {
		t.Error("changes to nobody are measured")
	}
}

func TestPicksAreShared(t *testing.T) {
	for _, n := range []int{0, 1, 7, 100} {
		total := 0
		for g := range 8 {
			total += share(n, 8, g)
		}
		if total != n {
			t.Errorf("%d of %d picks are made", total, n)
		}
	}
}

func TestCheck(t *testing.T) {
	for _, p := range []Plan{{}, {Nodes: []int{1}}, {Nodes: []int{0}, Goroutines: []int{1}}} {
		if p.Check() == nil {
			t.Errorf("%+v can be measured", p)
		}
	}
	if err := (Plan{[]int{1}, []int{1}}).Check(); err != nil {
		t.Error(err)
	}
}
