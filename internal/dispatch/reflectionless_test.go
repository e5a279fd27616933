package dispatch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"testing"
)

// TestTypedCallsUseNoReflection checks the code that runs in each call of a typed
// handler: the functions that Unary and Streaming return, and the functions of this
// package that these use. Reflection at registration is allowed.
func TestTypedCallsUseNoReflection(t *testing.T) {
	funcs := declaredFuncs(t)
	for _, name := range []string{"Unary", "Streaming"} {
		f := returnedFunc(funcs[name])
		if f == nil {
			t.Fatalf("%s returns no function: the test does not look", name)
		}
		if reflects(f, funcs, map[string]bool{}) {
			t.Errorf("the function that %s returns uses reflection", name)
		}
	}
}

// TestReflectionIsFound shows that the test above can fail.
func TestReflectionIsFound(t *testing.T) {
	funcs := declaredFuncs(t)
	indirect, err := parser.ParseExpr("func() string { return funcName(f) }")
	if err != nil {
		t.Fatal(err)
	}
	for what, n := range map[string]ast.Node{"directly": funcs["UnaryMethod"], "in a function called": indirect} {
		if !reflects(n, funcs, map[string]bool{}) {
			t.Errorf("reflection %s is not found", what)
		}
	}
}

// declaredFuncs returns this package's functions by name, without methods.
func declaredFuncs(t *testing.T) map[string]*ast.FuncDecl {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*ast.FuncDecl{}
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			if d, ok := decl.(*ast.FuncDecl); ok && d.Recv == nil {
				all[d.Name.Name] = d
			}
		}
	}
	return all
}

// returnedFunc returns the function literal that a function returns.
func returnedFunc(d *ast.FuncDecl) (f *ast.FuncLit) {
	ast.Inspect(d, func(n ast.Node) bool {
		if r, ok := n.(*ast.ReturnStmt); ok && f == nil && len(r.Results) == 1 {
			f, _ = r.Results[0].(*ast.FuncLit)
		}
		return f == nil
	})
	return f
}

// reflects reports whether the code uses package reflect, itself or in the
// functions of funcs that it names.
func reflects(code ast.Node, funcs map[string]*ast.FuncDecl, seen map[string]bool) (found bool) {
	ast.Inspect(code, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if !ok || seen[id.Name] {
			return !found
		}
		seen[id.Name] = true
		d := funcs[id.Name]
		found = found || id.Name == "reflect" || d != nil && reflects(d, funcs, seen)
		return !found
	})
	return found
}
