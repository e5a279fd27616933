//go:build !race

package housecheck

import (
	"go/ast"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// rules are the rules for Go files. bad has files that break the rule.
var rules = []struct {
	name  string
	check func(*source) []string
	path  string
	bad   []string
}{
	{"exports are documented", undocumented, "a.go", []string{
		"package a; func Open() {}",
		"package a; const A = 1",
		"package a\n// T is.\ntype T[K any] int\nfunc (*T[K]) M() {}",
	}},
	{"files have at most 700 lines", longFile, "a.go", []string{"package a\n" + strings.Repeat("\n", 700)}},
	{"functions have at most 100 lines", longFunc, "a.go", []string{"package a\nfunc f() {\n" + strings.Repeat("\n", 100) + "}"}},
	{"functions have at most five parameters", manyParameters, "a.go", []string{"package a; func f(a, b, c, d, e, g int) {}"}},
	{"no init functions", initFunc, "a.go", []string{"package a; func init() {}"}},
	{"no exported variables", exportedVar, "a.go", []string{"package a; var Default = map[string]int{}"}},
	{"packages are named for what they are", vagueName, "a.go", []string{"package util"}},
	{"only transport dials and listens", dials, "a/a.go", []string{
		`package a; import "net"; func f() { net.Dial("tcp", "") }`,
		`package a; import "net"; var l net.ListenConfig`,
		`package a; import "crypto/tls"; var d tls.Dialer`,
	}},
	{"tests sleep in virtual time, or say why not", sleeps, "a_test.go", []string{
		`package a; import "time"; func f() { time.Sleep(1) }`,
	}},
	{"tests fail without what they need", skips, "a_test.go", []string{
		`package a; func f(t *testing.T) { t.Skip("no node here") }`,
		`package a; func f(t *testing.T) { if noNode() { t.Skipf("no %s", node) } }`,
	}},
}

func TestRules(t *testing.T) {
	sources := goFiles(t)
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			for _, text := range r.bad {
				bad, err := parse(r.path, text)
				if err != nil {
					t.Fatal(err)
				}
				if len(r.check(bad)) == 0 {
					t.Errorf("the rule accepts %q", text)
				}
			}
			for _, s := range sources {
				if s.generated {
					continue
				}
				for _, problem := range r.check(s) {
					t.Error(problem)
				}
			}
		})
	}
}

func undocumented(s *source) (bad []string) {
	if s.test || s.file.Name.Name == "main" {
		return nil
	}
	for _, decl := range s.file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Doc == nil && d.Name.IsExported() && exportedReceiver(d) {
				bad = append(bad, s.at(d, "%s has no comment", d.Name))
			}
		case *ast.GenDecl:
			bad = append(bad, undocumentedSpecs(s, d)...)
		}
	}
	return bad
}

// exportedReceiver reports whether a function is not a method, or is a method of an exported
// type.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	exported := false
	ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if ok {
			exported = id.IsExported()
		}
		return !ok && !exported // the type's name comes before its parameters
	})
	return exported
}

func undocumentedSpecs(s *source, d *ast.GenDecl) (bad []string) {
	for _, spec := range d.Specs {
		switch v := spec.(type) {
		case *ast.TypeSpec:
			if v.Name.IsExported() && d.Doc == nil && v.Doc == nil && v.Comment == nil {
				bad = append(bad, s.at(v, "%s has no comment", v.Name))
			}
		case *ast.ValueSpec:
			if v.Names[0].IsExported() && d.Doc == nil && v.Doc == nil && v.Comment == nil {
				bad = append(bad, s.at(v, "%s has no comment", v.Names[0]))
			}
		}
	}
	return bad
}

func longFile(s *source) []string {
	if n := strings.Count(s.text, "\n"); n > 700 {
		return []string{s.at(s.file, "%d lines: split it by what changes together", n)}
	}
	return nil
}

func longFunc(s *source) (bad []string) {
	for d := range funcs(s) {
		if n := s.line(d.End()) - s.line(d.Pos()) + 1; n > 100 {
			bad = append(bad, s.at(d, "%s has %d lines", d.Name, n))
		}
	}
	return bad
}

// manyParameters counts neither a context nor options.
func manyParameters(s *source) (bad []string) {
	for d := range funcs(s) {
		n := 0
		for _, field := range d.Type.Params.List {
			sel, _ := field.Type.(*ast.SelectorExpr)
			_, variadic := field.Type.(*ast.Ellipsis)
			if !variadic && (sel == nil || sel.Sel.Name != "Context") {
				n += max(1, len(field.Names))
			}
		}
		if n > 5 && !s.test {
			bad = append(bad, s.at(d, "%s has %d parameters: make a struct of them", d.Name, n))
		}
	}
	return bad
}

func initFunc(s *source) (bad []string) {
	for d := range funcs(s) {
		if d.Name.Name == "init" && d.Recv == nil {
			bad = append(bad, s.at(d, "init runs in every program that imports the package: pass a value instead"))
		}
	}
	return bad
}

// allowedVars are the permitted exported variables, with the reason.
var allowedVars = map[string]string{
	"compat/netrpc DefaultServer": "net/rpc has it, and its programs count on one server for the whole process",
}

// exportedVar permits sentinel errors, which are never assigned to.
func exportedVar(s *source) (bad []string) {
	if s.test {
		return nil
	}
	for _, decl := range s.file.Decls {
		d, ok := decl.(*ast.GenDecl)
		if !ok || d.Tok != token.VAR {
			continue
		}
		for _, spec := range d.Specs {
			for _, name := range spec.(*ast.ValueSpec).Names {
				if name.IsExported() && !strings.HasPrefix(name.Name, "Err") && allowedVars[s.folder()+" "+name.Name] == "" {
					bad = append(bad, s.at(name, "%s can be changed by anybody: make it a function or an option", name))
				}
			}
		}
	}
	return bad
}

func vagueName(s *source) []string {
	if slices.Contains([]string{"base", "common", "core", "helper", "helpers", "misc", "share", "shared", "util", "utils"}, s.file.Name.Name) {
		return []string{s.at(s.file.Name, "package %s does not say what it is for", s.file.Name)}
	}
	return nil
}

// dials finds packages other than the transports that open connections. Programs may, and
// registries in their own modules, to their servers. registry/dns asks name servers, registrytest
// tries ports, and bombtest needs its own address.
func dials(s *source) (bad []string) {
	may := []string{"registry/dns", "registry/registrytest", "internal/bombtest", "transport"}
	if s.test || s.nested() || registryModule(s.folder()) || slices.Contains(may, s.folder()) || strings.HasPrefix(s.folder(), "transport/") {
		return nil
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && opensConnections(sel) {
			bad = append(bad, s.at(sel, "only package transport dials and listens"))
		}
		return true
	})
	return bad
}

// registryModule reports whether a folder is a registry's, with a go.mod.
func registryModule(folder string) bool {
	_, err := os.Stat(filepath.Join(root, folder, "go.mod"))
	return path.Dir(folder) == "registry" && err == nil
}

func opensConnections(sel *ast.SelectorExpr) bool {
	pkg, ok := sel.X.(*ast.Ident)
	if !ok || pkg.Name != "net" && pkg.Name != "tls" {
		return false
	}
	name := sel.Sel.Name
	return strings.HasPrefix(name, "Dial") || strings.HasPrefix(name, "Listen") && name != "Listener"
}

// sleeps finds tests that sleep. In a synctest bubble, sleeping takes no time; elsewhere, a
// comment on the same line must give the reason.
func sleeps(s *source) (bad []string) {
	if !s.test || s.imports("testing/synctest") {
		return nil
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok || sel.Sel.Name != "Sleep" || s.commented(sel) {
			return true
		}
		if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Name == "time" {
			bad = append(bad, s.at(sel, "wait for a condition, sleep in testing/synctest, or say on this line why not"))
		}
		return true
	})
	return bad
}

// reasons are the permitted conditions for skipping a test: a quick run, the race detector,
// another operating system, a user other than root, which CI is, a campaign with a make target.
var reasons = []string{"Short", "raceEnabled", "raceDetector", "GOOS", "Geteuid", "long"}

// skips finds tests that are skipped for another reason: a test for a program that is not
// installed would never run, without notice.
func skips(s *source) (bad []string) {
	for d := range funcs(s) {
		var found ast.Node
		reason := false
		ast.Inspect(d, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				reason = reason || slices.Contains(reasons, n.Name)
			case *ast.SelectorExpr:
				if of, ok := n.X.(*ast.Ident); ok && strings.HasPrefix(n.Sel.Name, "Skip") && slices.Contains([]string{"t", "b", "f", "tb"}, of.Name) {
					found = n
				}
			}
			return true
		})
		if s.test && found != nil && !reason {
			bad = append(bad, s.at(found, "fail where something is missing, and have CI install it: a test is left out only for %v", reasons))
		}
	}
	return bad
}

// funcs yields the functions that the file declares.
func funcs(s *source) func(func(*ast.FuncDecl) bool) {
	return func(yield func(*ast.FuncDecl) bool) {
		for _, decl := range s.file.Decls {
			if d, ok := decl.(*ast.FuncDecl); ok && !yield(d) {
				return
			}
		}
	}
}
