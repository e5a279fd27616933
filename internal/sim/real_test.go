package sim

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The simulator uses the real policies and has none of its own but those that are called naive:
// it imports the packages, starts no goroutine, uses no clock and no random numbers but the
// world's, and only the naive types have the methods of a policy.
func TestPoliciesAreTheRealOnes(t *testing.T) {
	imported, found := map[string]bool{}, []string{}
	for name, f := range sources(t) {
		for _, spec := range f.Imports {
			imported[strings.Trim(spec.Path.Value, `"`)] = true
		}
		for _, what := range foreignTo(f) {
			found = append(found, name+": "+what)
		}
	}
	slices.Sort(found)
	if len(found) > 0 {
		t.Errorf("not for a simulator: %q", found)
	}
	for _, pkg := range []string{"balance", "resilience", "registry"} {
		if !imported["github.com/tandem-rpc/tandem/"+pkg] {
			t.Errorf("package %s is not imported", pkg)
		}
	}
	for _, use := range []string{
		"balance.NewTableIn", "balance.P2C", "balance.LeastReported", "balance.SlowStart", "balance.Zone", "balance.RoundRobin", "resilience.NewBudget", "resilience.NewBreaker",
		"resilience.NewOutliers", "resilience.Backoff", "adapter.Keeper",
	} {
		if !uses(t, use) {
			t.Errorf("%s is not used", use)
		}
	}
}

// TestCopiesAreFound checks that the rule can fail.
func TestCopiesAreFound(t *testing.T) {
	for _, text := range []string{
		"package sim; type p2c struct{}; func (p2c) Pick() {}",
		"package sim; type own struct{}; func (*own) Build() {}",
		"package sim; func f() { go f() }",
		"package sim; import \"time\"; var now = time.Now()",
		"package sim; import \"math/rand/v2\"; var n = rand.IntN(3)",
		"package sim; func f(m map[string]int) { for range m {} }; var known map[string]bool; func g() { for k := range known { _ = k } }",
		"package sim; type budget struct{}; func (b *budget) Take() bool { return true }",
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "a.go", text, 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(foreignTo(f)) == 0 {
			t.Errorf("the rule accepts %q", text)
		}
	}
}

// sources parses the package's files, without its tests.
func sources(t *testing.T) map[string]*ast.File {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*ast.File{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		if all[name], err = parser.ParseFile(token.NewFileSet(), name, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	if len(all) < 10 {
		t.Fatalf("only %d files: the test does not look", len(all))
	}
	return all
}

// ofPolicies are method names of pickers, policies, budgets, breakers, and keepers.
var ofPolicies = []string{"Pick", "Build", "Take", "Admit", "Trip", "Look", "Apply", "Expire", "Pause"}

// foreignTo returns the uses in a file that are not allowed in the simulator.
func foreignTo(f *ast.File) (found []string) {
	maps := mapNames(f)
	ast.Inspect(f, func(n ast.Node) bool {
		switch v := n.(type) {
		case *ast.GoStmt:
			found = append(found, "a goroutine")
		case *ast.RangeStmt:
			if id, ok := v.X.(*ast.Ident); ok && maps[id.Name] {
				found = append(found, "the order of a map")
			}
		case *ast.FuncDecl:
			if v.Recv != nil && slices.Contains(ofPolicies, v.Name.Name) && !strings.HasPrefix(receiver(v), "naive") {
				found = append(found, "a policy of its own: "+receiver(v)+"."+v.Name.Name)
			}
		case *ast.SelectorExpr:
			pkg, ok := v.X.(*ast.Ident)
			if ok && (pkg.Name == "time" && slices.Contains([]string{"Now", "Since", "Until", "Sleep", "After"}, v.Sel.Name) ||
				pkg.Name == "rand" && !slices.Contains([]string{"New", "NewPCG", "Rand"}, v.Sel.Name)) {
				found = append(found, pkg.Name+"."+v.Sel.Name)
			}
		}
		return true
	})
	return found
}

func receiver(d *ast.FuncDecl) (name string) {
	ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			name = id.Name
		}
		return true
	})
	return name
}

// mapNames returns the names of variables and parameters that are declared as maps.
func mapNames(f *ast.File) map[string]bool {
	names := map[string]bool{}
	add := func(ids []*ast.Ident, typ ast.Expr) {
		if _, ok := typ.(*ast.MapType); ok {
			for _, id := range ids {
				names[id.Name] = true
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch v := n.(type) {
		case *ast.Field:
			add(v.Names, v.Type)
		case *ast.ValueSpec:
			add(v.Names, v.Type)
		}
		return true
	})
	return names
}

// uses reports whether the package uses an identifier of another package.
func uses(t *testing.T, name string) (found bool) {
	t.Helper()
	pkg, member, _ := strings.Cut(name, ".")
	for f := range maps.Values(sources(t)) {
		ast.Inspect(f, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == member {
				if id, ok := sel.X.(*ast.Ident); ok && id.Name == pkg {
					found = true
				}
			}
			return true
		})
	}
	return found
}
